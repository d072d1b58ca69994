//! What heads gain a front: the same maps with and without them.

use std::path::Path;

use super::super::{Outcome, StageError};
use super::eval::{Named, Work};
use super::measures::{self, Splits};
use super::traces;
use crate::dgap::judge::{Figures, corrected, gated, uncorrected};
use crate::dgap::{Examples, Loaded, Setting};
use crate::model::DecoderBackend;
use crate::precision::equivalent_bits;
use crate::report::{DgapFrontRow, ParetoRow, Role, read_csv, write_csv};
use crate::score::Objective;

/// Scores every map of a front on the test split, as it is and with the heads whose setting is nearest in bits.
///
/// The losses are means of the continuation's positions; `kl` and `nll` as everywhere.
pub(super) fn run<B: DecoderBackend>(
    work: &Work<'_, B>,
    front: &Path,
    known: &[&Named],
) -> Result<Outcome, StageError> {
    let maps: Vec<ParetoRow> = read_csv(front)?;
    let mut rows = Vec::new();
    for row in &maps {
        let setting = Setting {
            name: format!("front-{}", rows.len()),
            scheme: work.session.job.search_space.scheme.clone(),
            map: row.map.clone().for_layers(work.session.n_layers()).map_err(|error| StageError::Unmet {
                message: format!("`{}`: {error}", front.display()),
                hint: None,
            })?,
        };
        let named = nearest(work, known, row.equivalent_bits)?;
        rows.push(score(work, row, &setting, named)?);
    }
    let gained: Vec<Option<f64>> = rows.iter().map(|row| bits_gained(&rows, row)).collect();
    rows.iter_mut().zip(gained).for_each(|(row, gained)| row.bits_gained = gained);
    let path = work.session.file("dgap-front.csv");
    write_csv(&path, &rows)?;
    let summary = rows.iter().map(line).collect();
    Ok(Outcome { files: vec![path], summary })
}

fn nearest<'a, B: DecoderBackend>(
    work: &Work<'_, B>,
    known: &[&'a Named],
    bits: f64,
) -> Result<&'a Named, StageError> {
    let widths = work.session.widths();
    let distance =
        |named: &&&Named| (equivalent_bits(&named.heads.about.setting.map, &widths).get() - bits).abs();
    known.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).copied().ok_or_else(|| {
        StageError::Unmet {
            message: "there are no heads to score the front with".into(),
            hint: Some("train some with `kvtune dgap train`, or name them with `--heads`".into()),
        }
    })
}

fn score<B: DecoderBackend>(
    work: &Work<'_, B>,
    row: &ParetoRow,
    setting: &Setting,
    named: &Named,
) -> Result<DgapFrontRow, StageError> {
    let heads = &named.heads;
    let traced = traces::traced(work.session, work.decoder, work.test, setting, &heads.about.layers, "")?;
    let documents = Splits::of(&traced).test;
    let examples = Examples::new(&traced, &documents, heads.about.shape.top_k, heads.about.drift_limit);
    let loaded = Loaded::new(heads, &named.path, None, work.readout)?;
    let before = uncorrected(&examples);
    let after = corrected(&examples, &measures::shifts(&loaded, &examples));
    let after = gated(&before, &after, &measures::risks(&loaded, &examples), heads.about.threshold.risk);
    let objective = told(work.session.job.search.objective);
    let full = nll_full(&examples);
    let loss = |figures: Figures| match objective {
        Objective::Flips => figures.flips,
        Objective::Kl => figures.whole.kl,
        Objective::Nll | Objective::Accuracy => figures.perplexity.ln() - full,
    };
    Ok(DgapFrontRow {
        map: row.map.to_string(),
        role: row.role,
        equivalent_bits: row.equivalent_bits,
        heads: heads.about.setting.name.clone(),
        objective,
        loss: loss(Figures::of(&before, &before)),
        corrected_loss: loss(Figures::of(&before, &after)),
        bits_gained: None,
    })
}

/// Heads are judged under teacher forcing, which marks no answers: likelihood stands in for them.
fn told(objective: Objective) -> Objective {
    match objective {
        Objective::Accuracy => Objective::Nll,
        other => other,
    }
}

/// Mean negative log-likelihood of the trace's own tokens at full precision, nats.
fn nll_full(examples: &Examples<'_>) -> f64 {
    let of = |&(document, position): &(usize, usize)| {
        let row = examples.traced().sheet(document).position(position).row;
        f64::from(row.full_log_sum) - f64::from(row.next_full)
    };
    examples.places.iter().map(of).sum::<f64>() / examples.len().max(1) as f64
}

/// Fewest equivalent bits at which a map of the front has no more loss without heads than this one with them, less
/// this one's own, linear between neighbors of the lower left hull; `None` beyond its ends.
fn bits_gained(rows: &[DgapFrontRow], row: &DgapFrontRow) -> Option<f64> {
    let mut plain: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| row.role != Role::Uniform)
        .map(|row| (row.equivalent_bits, row.loss))
        .collect();
    plain.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = f64::INFINITY;
    plain.retain(|&(_, loss)| {
        let better = loss < least;
        least = least.min(loss);
        better
    });
    let above = plain.iter().position(|&(_, loss)| loss <= row.corrected_loss)?;
    let (bits, loss) = plain[above];
    let Some(&(fewer, more_loss)) = above.checked_sub(1).and_then(|below| plain.get(below)) else {
        return Some(bits - row.equivalent_bits);
    };
    let share = (more_loss - row.corrected_loss) / (more_loss - loss);
    Some(fewer + share * (bits - fewer) - row.equivalent_bits)
}

fn line(row: &DgapFrontRow) -> String {
    let gained = row.bits_gained.map_or(String::from("beyond the front"), |bits| format!("{bits:+.2} bits"));
    format!(
        "{:.2} bits: {} {:.4}, with heads of {} {:.4} ({gained})",
        row.equivalent_bits, row.objective, row.loss, row.heads, row.corrected_loss
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bits: f64, loss: f64, corrected_loss: f64) -> DgapFrontRow {
        DgapFrontRow {
            map: String::new(),
            role: Role::Front,
            equivalent_bits: bits,
            heads: String::new(),
            objective: Objective::Kl,
            loss,
            corrected_loss,
            bits_gained: None,
        }
    }

    #[test]
    fn losses_go_by_the_name_of_what_was_measured() {
        assert_eq!(told(Objective::Flips).to_string(), "flips");
        assert_eq!(told(Objective::Accuracy).to_string(), "nll");
    }

    #[test]
    fn bits_are_read_off_the_front_without_heads() {
        let rows = [row(2.0, 0.4, 0.3), row(4.0, 0.2, 0.2), row(8.0, 0.1, 0.05)];
        let gained = |at: usize| bits_gained(&rows, &rows[at]);
        assert!((gained(0).expect("on the front") - 1.0).abs() < 1e-9);
        assert!(gained(1).expect("on the front").abs() < 1e-9);
        assert_eq!(gained(2), None);
    }
}
