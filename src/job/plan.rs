use std::fmt;

use crate::model::Config;
use crate::tasks::DocumentCounts;

use super::spec::{Job, SearchSpec};
use super::stage::Stage;

/// What a job would do, for `--dry-run`: names and what stands behind them, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(Vec<(&'static str, String)>);

impl Plan {
    /// The plan of a job; `config` where the model's files are at hand, for what depends on its shape.
    pub fn new(job: &Job, config: Option<&Config>) -> Self {
        let pairs = job.search_space.pairs.expand();
        let names: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        let DocumentCounts { search, select, test } = job.trace.documents;
        let mut lines = vec![
            ("model", job.model.clone()),
            ("layers", config.map_or_else(|| not_here(job), |config| config.num_hidden_layers.to_string())),
            ("scheme", job.scheme_slug().to_owned()),
            ("pairs", format!("{} ({})", pairs.len(), names.join(" "))),
            ("task", job.trace.task.clone()),
            ("documents", format!("{search} search, {select} select, {test} test")),
            (
                "tokens",
                format!(
                    "{} or more of prompt, {} or fewer of continuation",
                    job.trace.min_tokens, job.trace.max_new_tokens
                ),
            ),
            ("evaluations", format!("{} at most, by {}", job.search.evaluations, job.search.algorithm)),
            ("objective", job.search.objective.to_string()),
            ("limits", limits(&job.search)),
        ];
        if let Some(config) = config {
            lines.push(("space", space_size(pairs.len(), config.num_hidden_layers)));
            lines.push(("disk", format!("about {} for the trace", size(trace_bytes(job, config)))));
            lines.push((
                "memory",
                format!("about {} for the weights", size(config.weight_elements().saturating_mul(4))),
            ));
        }
        lines.push(("files", files(job).join(" ")));
        lines.push(("out", job.out.display().to_string()));
        Self(lines)
    }
}

/// In the order in which they are written.
fn files(job: &Job) -> Vec<&'static str> {
    let of_stages = Stage::ALL.into_iter().flat_map(|stage| stage.files(job)).copied();
    ["job.yaml"].into_iter().chain(of_stages).chain(["report.html", "run.yaml"]).collect()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, what)| writeln!(f, "{name:<12} {what}"))
    }
}

fn not_here(job: &Job) -> String {
    format!("not known before `{}` is fetched", job.model)
}

fn limits(search: &SearchSpec) -> String {
    let bits = search.max_bits.map(|bits| format!("equivalent bits {bits}"));
    let storage = search
        .max_storage_bits
        .map(|limit| format!("storage bits {} at {} tokens", limit.bits, limit.context));
    let cache = search
        .max_cache
        .map(|limit| format!("cache {} at {} × {} tokens", limit.bytes, limit.batch, limit.context));
    let loss = Some(format!("loss {}", search.max_loss));
    [bits, storage, cache, loss].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn space_size(pairs: usize, layers: usize) -> String {
    let exponent = (pairs as f64).log10() * layers as f64;
    format!("10^{exponent:.1} maps before pruning and grouping")
}

/// Hidden states in f32, 64 logits with their ids, and the tokens.
fn trace_bytes(job: &Job, config: &Config) -> u64 {
    const TOP: usize = 64;
    let DocumentCounts { search, select, test } = job.trace.documents;
    let row = 4 * config.hidden_size + TOP * 8 + 4;
    let tokens = 4 * (job.trace.min_tokens + job.trace.max_new_tokens);
    ((search + select + test) * (job.trace.max_new_tokens * row + tokens)) as u64
}

/// A number of bytes, rounded for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes as f64 {
        small if small < 1e6 => format!("{:.0} kB", small / 1e3),
        middle if middle < 1e9 => format!("{:.0} MB", middle / 1e6),
        large => format!("{:.1} GB", large / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read::{Overrides, QUICKSTART};
    use super::*;

    #[test]
    fn a_plan_without_the_model_says_what_is_known() {
        let job = Job::parse(Path::new("q.yaml"), QUICKSTART, &Overrides::default()).expect("a job");
        let plan = Plan::new(&job, None).to_string();
        for line in [
            "model        smollm2-135m\n",
            "layers       not known before `smollm2-135m` is fetched\n",
            "pairs        9 (KV8 K8V4 K4V8 K8V2 K2V8 KV4 K4V2 K2V4 KV2)\n",
            "documents    4 search, 8 select, 8 test\n",
            "evaluations  50 at most, by moead\n",
            "limits       equivalent bits 4, loss 0.1\n",
            "out          runs/smollm2-135m/kivi\n",
        ] {
            assert!(plan.contains(line), "{line} is missing from\n{plan}");
        }
    }

    #[test]
    fn sizes_are_round() {
        assert_eq!([size(1_500), size(540_000_000), size(2_340_000_000)], ["2 kB", "540 MB", "2.3 GB"]);
    }
}
