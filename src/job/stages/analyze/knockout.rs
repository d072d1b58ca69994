//! `knockout.csv`: the chosen map a step lower, group by group.

use super::inputs::{Errors, Inputs};
use crate::analysis::{KnockOut, knock_outs, median};
use crate::cache::Simulation;
use crate::job::stages::sensitivity::driving_error;
use crate::job::stages::session::Session;
use crate::job::stages::{AnalysisRequest, Outcome, StageError};
use crate::model::{Decoder, DecoderBackend};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::report::{KnockOutFindings, KnockOutRow, write_csv};
use crate::score::{Objective, Scorer, Tally};
use crate::select::{Bootstrap, DocumentLoss, Estimate, estimate, paired};
use crate::sensitivity::correlation::spearman;
use crate::trace::Document;

/// Scores the map and all lowered ones in one batch; nothing where the folder has no map or no groups.
pub(super) fn run<B: DecoderBackend>(
    request: &AnalysisRequest,
    session: &Session<'_>,
    decoder: &Decoder<B>,
    simulation: &Simulation,
    inputs: &Inputs,
    errors: &Errors,
    outcome: &mut Outcome,
) -> Result<Option<(KnockOutFindings, Vec<KnockOutRow>)>, StageError> {
    let (Some(map), Some(space)) = (&inputs.map, &inputs.space) else { return Ok(None) };
    let groups: Vec<_> = space.groups().iter().map(|group| group.layers.clone()).collect();
    let (found, narrowest) = knock_outs(map, &groups, &session.job.search_space.pairs.expand());
    let documents: Vec<&Document> = inputs.trace.split(request.split).collect();
    let count = documents.len();
    let maps: Vec<PrecisionMap> =
        std::iter::once(map.clone()).chain(found.iter().map(|lowered| lowered.map.clone())).collect();
    let observer = session.observer();
    observer.begin("knock-out", (maps.len() * count) as u64, "documents");
    let scorer = Scorer::new(decoder, simulation, documents, session.context.threads);
    let tallies = scorer.evaluate(&maps, observer)?;
    observer.end(&format!(
        "{} lowered maps on {count} documents of the {} split",
        found.len(),
        request.split
    ));
    // Teacher forcing marks no answers, so what such a job's maps lose is said in likelihood.
    let objective = match session.job.search.objective {
        Objective::Accuracy => Objective::Nll,
        other => other,
    };
    let table = Table {
        loss: changes(session, objective, &tallies)?,
        kl: changes(session, Objective::Kl, &tallies)?,
        rises: found.iter().map(|lowered| rise(session, errors, lowered)).collect(),
        found,
    };
    let rows = table.rows(session, errors);
    let path = session.file("knockout.csv");
    write_csv(&path, &rows)?;
    outcome.files.push(path);
    let own = Tally::pooled(&tallies[0]);
    let findings = KnockOutFindings {
        split: request.split.to_string(),
        documents: count,
        exploratory: count < crate::select::FEWEST_DOCUMENTS,
        lowered: rows.len(),
        narrowest,
        objective: objective.to_string(),
        loss: own.mean(objective),
        kl: own.mean(Objective::Kl),
        loss_with_e_o: table.correlation(&table.loss),
        kl_with_e_o: table.correlation(&table.kl),
        cliff: cliff(&table.kl),
    };
    Ok(Some((findings, rows)))
}

/// What each lowered map loses against the map, on the same documents.
fn changes(
    session: &Session<'_>,
    objective: Objective,
    tallies: &[Vec<Tally>],
) -> Result<Vec<Estimate>, StageError> {
    let loss = |tally: &Tally| DocumentLoss { sum: tally.sum(objective), positions: tally.positions };
    let losses: Vec<Vec<DocumentLoss>> =
        tallies.iter().map(|of_map| of_map.iter().map(loss).collect()).collect();
    let differences: Vec<Vec<DocumentLoss>> =
        losses[1..].iter().map(|lowered| paired(lowered, &losses[0])).collect::<Result<_, _>>()?;
    Ok(estimate(&differences, Bootstrap { seed: session.job.search.seed, ..Bootstrap::default() })?)
}

/// e_o of the lowered layers at one pair, a layer each.
fn layer_errors(
    session: &Session<'_>,
    errors: &Errors,
    found: &KnockOut,
    pair: PrecisionPair,
) -> Option<Vec<f64>> {
    let metric = session.job.search_space.sensitivity.metric;
    let of_layer = |layer: usize| Some(driving_error(errors.layer(layer, pair)?, metric));
    found.layers.iter().map(|layer| of_layer(layer.0)).collect()
}

/// By how much e_o rises, summed over the lowered layers.
fn rise(session: &Session<'_>, errors: &Errors, found: &KnockOut) -> Option<f64> {
    let sum = |pair| Some(layer_errors(session, errors, found, pair)?.iter().sum::<f64>());
    Some(sum(found.to)? - sum(found.from)?)
}

/// One entry a lowered map.
struct Table {
    found: Vec<KnockOut>,
    loss: Vec<Estimate>,
    kl: Vec<Estimate>,
    rises: Vec<Option<f64>>,
}

impl Table {
    /// Worst first.
    fn rows(&self, session: &Session<'_>, errors: &Errors) -> Vec<KnockOutRow> {
        let mut rows: Vec<KnockOutRow> =
            (0..self.found.len()).map(|index| self.row(index, session, errors)).collect();
        rows.sort_by(|a, b| {
            b.loss_change.total_cmp(&a.loss_change).then(b.kl_change.total_cmp(&a.kl_change))
        });
        rows
    }

    fn row(&self, index: usize, session: &Session<'_>, errors: &Errors) -> KnockOutRow {
        let KnockOut { group, layers, side, from, to, map } = &self.found[index];
        let (loss, kl) = (self.loss[index], self.kl[index]);
        let mean = |pair| {
            let errors = layer_errors(session, errors, &self.found[index], pair)?;
            Some(errors.iter().sum::<f64>() / errors.len() as f64)
        };
        let means =
            |estimates: &[Estimate]| estimates.iter().map(|estimate| estimate.mean).collect::<Vec<_>>();
        let known: Vec<f64> = self.rises.iter().copied().flatten().collect();
        KnockOutRow {
            group: *group,
            layers: layers.iter().map(|layer| layer.0).collect(),
            side: *side,
            from: *from,
            to: *to,
            loss_change: loss.mean,
            loss_low: loss.low,
            loss_high: loss.high,
            kl_change: kl.mean,
            kl_low: kl.low,
            kl_high: kl.high,
            e_o: mean(*from),
            e_o_lowered: mean(*to),
            rank_loss: place(&means(&self.loss), loss.mean),
            rank_kl: place(&means(&self.kl), kl.mean),
            rank_e_o: self.rises[index].map(|rise| place(&known, rise)),
            map: map.clone(),
        }
    }

    /// Of changes with rises of e_o, where those are known.
    fn correlation(&self, changes: &[Estimate]) -> Option<f64> {
        let known =
            changes.iter().zip(&self.rises).filter_map(|(change, rise)| Some((change.mean, (*rise)?)));
        let (changes, rises): (Vec<f64>, Vec<f64>) = known.unzip();
        spearman(&changes, &rises)
    }
}

/// 1 for the largest; equals share a place.
fn place(values: &[f64], value: f64) -> usize {
    1 + values.iter().filter(|&&other| other > value).count()
}

/// The largest change over the median one, where that is above zero.
fn cliff(changes: &[Estimate]) -> Option<f64> {
    let means: Vec<f64> = changes.iter().map(|change| change.mean).collect();
    let largest = means.iter().copied().max_by(f64::total_cmp)?;
    median(&means).filter(|&median| median > 0.0).map(|median| largest / median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_share_a_place() {
        let values = [0.5, 0.2, 0.5, 0.1];
        assert_eq!(values.map(|value| place(&values, value)), [1, 3, 1, 4]);
    }

    #[test]
    fn a_cliff_is_the_largest_over_the_median() {
        let change =
            |mean: f64| Estimate { mean, low: 0.0, high: 0.0, upper: 0.0, documents: 2, exploratory: true };
        let found = cliff(&[change(0.1), change(1.0), change(0.2)]).expect("a median");
        assert!((found - 5.0).abs() < 1e-12);
        assert_eq!(cliff(&[change(-0.1), change(0.0)]), None);
        assert_eq!(cliff(&[]), None);
    }
}
