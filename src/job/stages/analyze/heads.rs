//! `heads.csv`, `heads.svg` and the attention of chosen heads.

use super::inputs::Errors;
use crate::analysis::{HeadClass, HeadId, Observation, Pattern};
use crate::job::stages::session::Session;
use crate::job::stages::{AnalysisRequest, Outcome, StageError};
use crate::precision::PrecisionPair;
use crate::report::plot::{self, AttentionPicture};
use crate::report::{ChosenHead, HeadCounts, PatternRow, write_csv};

/// Heads that are not of the model are known before anything is read.
pub(super) fn check(request: &AnalysisRequest, session: &Session<'_>) -> Result<(), StageError> {
    let (layers, heads) = (session.n_layers(), session.checkpoint.config().num_attention_heads);
    let wrong = request.heads.iter().find(|head| head.layer >= layers || head.head >= heads);
    wrong.map_or(Ok(()), |&head| Err(StageError::Head { head, last_layer: layers - 1, last_head: heads - 1 }))
}

/// What is said of heads.
pub(super) struct Heads<'a> {
    pub(super) session: &'a Session<'a>,
    pub(super) request: &'a AnalysisRequest,
    pub(super) observation: &'a Observation,
    pub(super) errors: &'a Errors,
}

impl Heads<'_> {
    /// Writes rows and figures; gives the rows, and which heads were drawn.
    pub(super) fn write(
        &self,
        outcome: &mut Outcome,
    ) -> Result<(Vec<PatternRow>, Vec<ChosenHead>), StageError> {
        let rows = self.rows();
        let (csv, svg) = (self.session.file("heads.csv"), self.session.file("heads.svg"));
        write_csv(&csv, &rows)?;
        plot::plot(&csv, &svg)?;
        outcome.files.extend([csv, svg]);
        let mut drawn = Vec::new();
        for (head, why) in self.chosen(&rows) {
            let file = format!("attention-{head}.png");
            let path = self.session.file(&file);
            self.draw(head, &why, &path)?;
            outcome.files.push(path);
            drawn.push(ChosenHead { head: head.to_string(), why, file });
        }
        Ok((rows, drawn))
    }

    /// Heads by class.
    pub(super) fn counts(&self) -> HeadCounts {
        let patterns: Vec<Pattern> = self.patterns().into_iter().map(|(_, pattern)| pattern).collect();
        let streaming = patterns.iter().filter(|pattern| pattern.class() == HeadClass::Streaming).count();
        let first = self.observation.layers.first().and_then(|layer| layer.heads.first());
        let queries = first.map_or(0, crate::analysis::PatternSums::queries);
        HeadCounts { streaming, retrieval: patterns.len() - streaming, queries }
    }

    fn patterns(&self) -> Vec<(HeadId, Pattern)> {
        let layers = self.observation.layers.iter().enumerate();
        let heads = layers.flat_map(|(layer, seen)| {
            seen.heads.iter().enumerate().map(move |(head, sums)| (HeadId { layer, head }, sums))
        });
        heads.filter_map(|(id, sums)| Some((id, sums.pattern()?))).collect()
    }

    /// A head after the other, each at all pairs.
    fn rows(&self) -> Vec<PatternRow> {
        let pairs = self.session.job.search_space.pairs.expand();
        let shape = self.session.checkpoint.config().head_shape();
        let row = |(id, pattern): &(HeadId, Pattern), &pair: &PrecisionPair| {
            let errors = self.errors.head(id.layer, id.head, pair)?;
            Some(PatternRow {
                layer: id.layer,
                head: id.head,
                kv_head: id.head / shape.heads_per_kv(),
                entropy: pattern.entropy,
                concentration: pattern.concentration,
                first_mass: pattern.first,
                recent_mass: pattern.recent,
                top_mass: pattern.top,
                class: pattern.class(),
                pair,
                e_a: errors.e_a,
                e_o_l1: errors.e_o_l1,
                e_o_elementwise: errors.e_o_elementwise,
            })
        };
        let patterns = self.patterns();
        patterns.iter().flat_map(|head| pairs.iter().filter_map(move |pair| row(head, pair))).collect()
    }

    /// The heads asked for; without any, the extremes, each once.
    fn chosen(&self, rows: &[PatternRow]) -> Vec<(HeadId, String)> {
        let mut chosen: Vec<(HeadId, String)> = match self.request.heads.is_empty() {
            false => self.request.heads.iter().map(|&head| (head, String::from("asked for"))).collect(),
            true => extremes(rows),
        };
        let mut seen = Vec::new();
        chosen.retain(|(head, _)| {
            !seen.contains(head) && {
                seen.push(*head);
                true
            }
        });
        chosen
    }

    fn draw(&self, id: HeadId, why: &str, path: &std::path::Path) -> Result<(), StageError> {
        let map = &self.observation.layers[id.layer].maps[id.head];
        let picture = AttentionPicture {
            title: format!("{}, layer {}, head {}: {why}", self.session.resolved.id, id.layer, id.head),
            tokens: map.tokens(),
            block: map.block(),
            blocks: map.blocks(),
            cells: map.cells(),
        };
        Ok(plot::plot_attention(&picture, path)?)
    }
}

/// The most streaming, the most retrieving and the most sensitive head; of equals the first.
fn extremes(rows: &[PatternRow]) -> Vec<(HeadId, String)> {
    let shown = PatternRow::shown_pair(rows.iter().map(|row| row.pair));
    let heads: Vec<&PatternRow> = rows.iter().filter(|row| Some(row.pair) == shown).collect();
    let largest = |value: &dyn Fn(&PatternRow) -> f64| {
        let first = heads.iter().rev().max_by(|a, b| value(a).total_cmp(&value(b)))?;
        Some(HeadId { layer: first.layer, head: first.head })
    };
    let streaming = |row: &PatternRow| row.first_mass + row.recent_mass;
    let found = [
        (largest(&streaming), "most streaming"),
        (largest(&|row| -streaming(row)), "most retrieving"),
        (largest(&|row| row.e_o_l1), "most sensitive"),
    ];
    found.into_iter().filter_map(|(head, why)| Some((head?, why.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(head: usize, recent_mass: f64, e_o_l1: f64) -> PatternRow {
        PatternRow {
            layer: 1,
            head,
            kv_head: 0,
            entropy: 1.0,
            concentration: 0.5,
            first_mass: 0.1,
            recent_mass,
            top_mass: 0.5,
            class: HeadClass::Retrieval,
            pair: "KV2".parse().expect("a pair"),
            e_a: e_o_l1,
            e_o_l1,
            e_o_elementwise: e_o_l1,
        }
    }

    #[test]
    fn the_extremes_are_drawn_and_of_equals_the_first() {
        let found = extremes(&[row(0, 0.5, 0.1), row(1, 0.8, 0.3), row(2, 0.8, 0.2), row(3, 0.2, 0.3)]);
        let told: Vec<String> = found.iter().map(|(head, why)| format!("{why} {head}")).collect();
        assert_eq!(told, ["most streaming 1.1", "most retrieving 1.3", "most sensitive 1.1"]);
    }
}
