//! Do rounded weights change which layers are sensitive? KVTuner says no; the same tokens on the model as it is and
//! with the weights of its linear layers rounded.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};
use burn_flex::Flex;
use clap::Args;
use kvtune::cache::Units;
use kvtune::model::Decoder;
use kvtune::precision::{PrecisionMap, PrecisionPair};
use kvtune::report::{write_csv, write_text};
use kvtune::score::{Objective, Scorer, Tally};
use kvtune::sensitivity::correlation::spearman;
use kvtune::sensitivity::{Metric, Table, isolated};
use kvtune_kernels::codec::{Codec, CodecOptions, Metadata};
use rayon::prelude::*;
use serde::Serialize;

use crate::bench::Subject;
use crate::folder::Folder;
use crate::statistics::median;
use crate::told::Told;

/// How weights are rounded.
#[derive(Args)]
pub(crate) struct RoundingOptions {
    /// Weights of one row that share a scale and a zero point; a last group may be shorter
    #[arg(long, default_value_t = 128)]
    group: usize,
    /// Bits of a weight
    #[arg(long, default_value_t = 4)]
    bits: u8,
}

/// Round to nearest on an even grid from the least to the greatest weight of a group.
struct Rounding {
    codec: Codec,
    group: usize,
}

impl Rounding {
    fn new(options: &RoundingOptions) -> anyhow::Result<Self> {
        let RoundingOptions { group, bits } = *options;
        ensure!(group > 0, "`--group` is 0, expected at least 1");
        ensure!(bits > 1, "`--bits` is {bits}, expected at least 2");
        let options = CodecOptions { metadata: Metadata::F32, ..CodecOptions::default() };
        Ok(Self { codec: Codec::new(bits, options)?, group })
    }

    /// Rounds rows of `width` weights, which are finite.
    fn apply(&self, weights: &mut [f32], width: usize) {
        weights.par_chunks_mut(width.max(1)).for_each(|row| {
            let rounded = self.codec.fake_quant_groups(row, self.group);
            rounded.expect("weights were checked to be finite, and f32 holds the range of any of them");
        });
    }
}

/// One line of `weights.csv`.
#[derive(Clone, Debug, Serialize)]
struct Row {
    layer: usize,
    pair: PrecisionPair,
    e_o_before: f64,
    e_o_after: f64,
}

/// Measures both models on the job's documents; writes `weights.csv` and `weights.md` into `out`.
pub(crate) fn run(
    folder: &Folder,
    subject: &Subject,
    options: &RoundingOptions,
    out: &Path,
) -> anyhow::Result<String> {
    let rounding = Rounding::new(options)?;
    let device = Default::default();
    // One model is in memory at a time.
    let before = measured(folder, subject, &Decoder::load(&subject.checkpoint, &device)?)?;
    let change = |weights: &mut [f32], width: usize| rounding.apply(weights, width);
    let rounded = Decoder::load_changed(&subject.checkpoint, &device, &change)?;
    let (after, harm) = (measured(folder, subject, &rounded)?, harm(folder, subject, &rounded)?);
    let rows = rows(&before, &after, folder.job.search_space.sensitivity.metric);
    write_csv(&out.join("weights.csv"), &rows)?;
    let mut text = summary(&rows);
    let RoundingOptions { group, bits } = options;
    let _ = writeln!(
        text,
        "\nWeights of the linear layers in {bits} bits, groups of {group}; {} documents of the search split. By \
         itself the rounding costs a KL of {:.4} nats a token and {:.4} flips, at a full-precision cache.",
        subject.documents,
        harm.mean(Objective::Kl),
        harm.mean(Objective::Flips)
    );
    write_text(&out.join("weights.md"), &text)?;
    Ok(text)
}

/// Errors of a model's layers by its own queries, keys and values.
fn measured(folder: &Folder, subject: &Subject, decoder: &Decoder<Flex>) -> anyhow::Result<Table> {
    let space = &folder.job.search_space;
    let simulation = subject.simulation(decoder, &space.scheme)?;
    let documents = subject.documents();
    let units = |prompt: usize| Units::prompt(prompt, space.scheme.prefill);
    let sequences: Vec<(&[u32], Units)> =
        documents.iter().map(|document| (&document.tokens[..], units(document.prompt_len))).collect();
    let (model, pairs) = ((decoder, &simulation), space.pairs.expand());
    let tables = isolated::measure_all(model, &pairs, &sequences, subject.threads, &Told::default())?;
    Ok(Table::pooled(&tables))
}

/// What a model loses against the trace, which the model as it is recorded, at a full-precision cache.
fn harm(folder: &Folder, subject: &Subject, decoder: &Decoder<Flex>) -> anyhow::Result<Tally> {
    let simulation = subject.simulation(decoder, &folder.job.search_space.scheme)?;
    let full = PrecisionMap::uniform(decoder.config().num_hidden_layers, PrecisionPair::FULL);
    let scorer = Scorer::new(decoder, &simulation, subject.documents(), subject.threads);
    let tallies = scorer.evaluate(&[full], &Told::default())?;
    Ok(Tally::pooled(tallies.first().context("one map was scored")?))
}

/// Pair by pair, layer by layer.
fn rows(before: &Table, after: &Table, metric: Metric) -> Vec<Row> {
    let of_pair = |(index, &pair): (usize, &PrecisionPair)| {
        let both = before.output_errors(index, metric).into_iter().zip(after.output_errors(index, metric));
        let row = move |(layer, (e_o_before, e_o_after))| Row { layer, pair, e_o_before, e_o_after };
        both.enumerate().map(row).collect::<Vec<_>>()
    };
    before.pairs.iter().enumerate().flat_map(of_pair).collect()
}

fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| pair | Spearman of the layers' e_o before and after | e_o after / before (median) |\n|---|---:|---:|\n",
    );
    let mut found = Vec::new();
    for of_pair in rows.chunk_by(|a, b| a.pair == b.pair) {
        let column = |of: fn(&Row) -> f64| of_pair.iter().map(of).collect::<Vec<_>>();
        let rho = spearman(&column(|row| row.e_o_before), &column(|row| row.e_o_after));
        let ratios = of_pair.iter().map(|row| row.e_o_after / row.e_o_before);
        let ratio = median(ratios.filter(|ratio| ratio.is_finite()).collect());
        let shown = |value: Option<f64>| value.map_or(String::from("–"), |value| format!("{value:.4}"));
        let _ = writeln!(text, "| {} | {} | {} |", of_pair[0].pair, shown(rho), shown(ratio));
        found.extend(rho);
    }
    if let Some(least) = found.iter().copied().reduce(f64::min) {
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let _ = writeln!(
            text,
            "\nRank correlation over {} pairs: mean {mean:.4}, least {least:.4}.",
            found.len()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_to_the_nearest_of_sixteen_levels_of_their_group() {
        let rounding = Rounding::new(&RoundingOptions { group: 4, bits: 4 }).expect("a codec");
        // Rows of six: a group of four and a ragged one of two. Levels of the first group are 0, 1, …, 15; of the
        // second 10 and 25, both kept; the second row has levels −1.5, −1.3, …, 1.5, and a constant group.
        let mut weights = [0.0, 15.0, 7.4, 7.6, 10.0, 25.0, -1.5, 1.5, 0.05, -0.45, 3.0, 3.0];
        rounding.apply(&mut weights, 6);
        let expected = [0.0, 15.0, 7.0, 8.0, 10.0, 25.0, -1.5, 1.5, 0.1, -0.5, 3.0, 3.0];
        for (found, expected) in weights.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{weights:?}");
        }
    }

    #[test]
    fn options_that_make_no_grid_are_refused() {
        assert!(Rounding::new(&RoundingOptions { group: 0, bits: 4 }).is_err());
        assert!(Rounding::new(&RoundingOptions { group: 8, bits: 1 }).is_err());
        assert!(Rounding::new(&RoundingOptions { group: 8, bits: 7 }).is_err());
    }

    #[test]
    fn the_summary_ranks_layers_pair_by_pair() {
        let pair = |text: &str| text.parse().expect("a pair");
        let row =
            |name: &str, layer, e_o_before, e_o_after| Row { layer, pair: pair(name), e_o_before, e_o_after };
        let text = summary(&[
            row("KV4", 0, 0.1, 0.2),
            row("KV4", 1, 0.2, 0.4),
            row("KV2", 0, 0.1, 0.3),
            row("KV2", 1, 0.2, 0.1),
            row("KV8", 0, 0.0, 0.0),
            row("KV8", 1, 0.0, 0.0),
        ]);
        assert!(
            text.contains("| KV4 | 1.0000 | 2.0000 |\n| KV2 | -1.0000 | 0.5000 |\n| KV8 | – | – |\n"),
            "{text}"
        );
        assert!(text.ends_with("over 2 pairs: mean 0.0000, least -1.0000.\n"), "{text}");
    }
}
