use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::engine::Known;
use super::rules::uniform;
use super::surrogate::{Prediction, Surrogate};
use super::{Archive, Genome, LossTable, Objectives, Problem};

/// Genomes evaluated at once before the model is fitted anew.
const BATCH: usize = 4;
/// Candidates weighed per batch.
const MOST_CANDIDATES: usize = 4000;
/// Least growth of the hypervolume, as a share of it, that is worth an evaluation.
const LEAST_GAIN: f64 = 1e-5;
/// Evaluations after which no model is fitted: the work grows with their cube.
const MOST_EVALUATED: usize = 250;

/// Search near the front by a model: changes of one or two groups that should raise the hypervolume most.
///
/// **Ours.** A small budget has no generations to spare: the table, corrected by what was evaluated, says which
/// neighbors of the front are worth it. Where it sees no gain, MOEA/D's own children follow.
pub(super) struct Refinement<'a> {
    model: Surrogate<'a>,
}

impl<'a> Refinement<'a> {
    /// A model of what is known; none once so much is that fitting costs more than it can tell.
    pub(super) fn new(known: &Known<'_>, table: &'a LossTable) -> Option<Self> {
        if known.memo.len() >= MOST_EVALUATED {
            return None;
        }
        let told: Vec<(&Genome, f64)> = known.memo.iter().map(|(genome, at)| (genome, at.loss)).collect();
        Some(Self { model: Surrogate::fit(table, &told) })
    }

    /// The genomes that promise most by their expected losses, else by hopeful ones; none when neither promises.
    pub(super) fn batch(&self, known: &Known<'_>, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        let neighbors: Vec<_> = neighbors(known, rng)
            .into_iter()
            .map(|genome| (known.problem.bits().of(&genome), self.model.predict(&genome), genome))
            .collect();
        let (most, reference) = (BATCH.min(known.left), reference(known.problem, known.archive));
        let views: [fn(Prediction) -> f64; 2] = [|loss| loss.expected, |loss| loss.hopeful];
        let chosen_by = |view: fn(Prediction) -> f64| {
            let at = |(bits, loss, genome): &(f64, Prediction, Genome)| {
                (genome.clone(), Objectives { bits: *bits, loss: view(*loss) })
            };
            let candidates: Vec<_> = neighbors.iter().map(at).collect();
            greedy(known.archive, &candidates, most, reference, LEAST_GAIN)
        };
        views.into_iter().map(chosen_by).find(|chosen| !chosen.is_empty()).unwrap_or_default()
    }
}

/// The seeds to begin with: those that should raise the hypervolume most, for up to three quarters of the budget.
///
/// All of them when they are no more than that and there is no loss limit. Without a table nothing is known of them
/// and they are taken as they come.
pub(super) fn best_seeds(
    known: &Known<'_>,
    seeds: &[Genome],
    table: Option<&LossTable>,
    population: usize,
) -> Vec<Genome> {
    let most = population.max(known.budget * 3 / 4).min(known.left);
    let limited = seeds.len() > most || known.problem.max_loss().is_some();
    let Some(table) = table.filter(|_| limited) else {
        return seeds.iter().take(known.left).cloned().collect();
    };
    let bits = known.problem.bits();
    let at = |genome: &Genome| Objectives { bits: bits.of(genome), loss: table.predict(genome) };
    let predicted: Vec<_> = seeds.iter().map(|genome| (genome.clone(), at(genome))).collect();
    let mut whole = Archive::default();
    for (genome, at) in &predicted {
        whole.insert(genome, *at);
    }
    greedy(&Archive::default(), &predicted, most, reference(known.problem, &whole), 0.0)
}

/// Where hypervolume is measured from: a tenth beyond the front's own box, so that its ends count as well.
///
/// Under a loss limit that the front can meet no further than twice the limit: what lies beyond is of no use, but
/// predictions err.
fn reference(problem: &Problem, archive: &Archive) -> Objectives {
    let (Some(ideal), Some(nadir)) = (archive.ideal(), archive.nadir()) else {
        return Objectives { bits: f64::INFINITY, loss: f64::INFINITY };
    };
    let beyond = |ideal: f64, nadir: f64| nadir + 0.1 * (nadir - ideal).max(nadir.abs() * 1e-3);
    let within_reach = problem.max_loss().filter(|&max_loss| ideal.loss <= max_loss);
    let most =
        within_reach.map_or(f64::INFINITY, |max_loss| 2.0 * max_loss.max(ideal.loss + f64::MIN_POSITIVE));
    Objectives { bits: beyond(ideal.bits, nadir.bits), loss: beyond(ideal.loss, nadir.loss).min(most) }
}

/// One after the other the candidates that add most hypervolume, as if those before had turned out as predicted.
fn greedy(
    archive: &Archive,
    candidates: &[(Genome, Objectives)],
    most: usize,
    reference: Objectives,
    least_gain: f64,
) -> Vec<Genome> {
    let (mut front, mut chosen) = (archive.clone(), Vec::new());
    while chosen.len() < most {
        let gains = candidates.iter().map(|(genome, at)| (gain(&front, *at, reference), genome, *at));
        let best = gains.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((gain, genome, at)) = best else { break };
        if gain.is_nan() || gain <= least_gain * front.hypervolume(reference) {
            break;
        }
        front.insert(genome, at);
        chosen.push(genome.clone());
    }
    chosen
}

/// Hypervolume that a point adds to a front: the staircase between it and what dominates part of its box.
fn gain(front: &Archive, at: Objectives, reference: Objectives) -> f64 {
    let (mut area, mut left) = (0.0, at.bits);
    let before = front.front().partition_point(|member| member.1.bits <= at.bits);
    let (lower, higher) = front.front().split_at(before);
    let mut ceiling = lower.last().map_or(reference.loss, |member| member.1.loss.min(reference.loss));
    for (_, member) in higher {
        if ceiling <= at.loss || left >= reference.bits {
            return area;
        }
        let right = member.bits.min(reference.bits);
        area += (right - left) * (ceiling - at.loss);
        left = right;
        ceiling = ceiling.min(member.loss);
    }
    area + (reference.bits - left).max(0.0) * (ceiling - at.loss).max(0.0)
}

/// Genomes not yet evaluated that differ from a member of the front in one group, or in two in opposite ways.
fn neighbors(known: &Known<'_>, rng: &mut ChaCha8Rng) -> Vec<Genome> {
    let mut members: Vec<&Genome> = known.archive.front().iter().map(|member| &member.0).collect();
    members.shuffle(rng);
    let mut found: BTreeSet<Genome> = uniform(known.problem).into_iter().collect();
    for change in [one_group, two_groups] {
        for member in &members {
            if found.len() < MOST_CANDIDATES {
                found.extend(change(known.problem, member));
            }
        }
    }
    let open = |genome: &Genome| !known.memo.contains_key(genome) && known.problem.is_within_limits(genome);
    found.into_iter().filter(open).collect()
}

fn one_group(problem: &Problem, genome: &Genome) -> Vec<Genome> {
    let groups = 0..problem.n_groups();
    groups
        .flat_map(|group| (0..problem.n_choices(group)).map(move |choice| genome.with(group, choice)))
        .collect()
}

fn two_groups(problem: &Problem, genome: &Genome) -> Vec<Genome> {
    let n_groups = problem.n_groups();
    let moves = (0..n_groups).flat_map(|down| (0..n_groups).map(move |up| (down, up)));
    let exchange = |(down, up): (usize, usize)| {
        let (lower, higher) = (genome.choices()[down].checked_sub(1)?, genome.choices()[up] + 1);
        (down != up && higher < problem.n_choices(up)).then(|| genome.with(down, lower).with(up, higher))
    };
    moves.filter_map(exchange).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(points: &[(f64, f64)]) -> Archive {
        let mut archive = Archive::default();
        for (index, &(bits, loss)) in points.iter().enumerate() {
            archive.insert(&Genome::new(vec![index]), Objectives { bits, loss });
        }
        archive
    }

    #[test]
    fn the_gain_of_a_point_is_the_difference_of_hypervolumes() {
        let front = archive(&[(1.0, 7.0), (3.0, 4.0), (4.0, 3.5), (7.0, 1.0)]);
        let reference = Objectives { bits: 8.0, loss: 8.0 };
        for (bits, loss) in
            [(2.0, 3.0), (0.5, 0.5), (3.0, 3.7), (5.0, 5.0), (7.5, 0.5), (9.0, 0.0), (0.0, 9.0)]
        {
            let mut with = front.clone();
            with.insert(&Genome::new(vec![9]), Objectives { bits, loss });
            let expected = with.hypervolume(reference) - front.hypervolume(reference);
            let found = gain(&front, Objectives { bits, loss }, reference);
            assert!((found - expected).abs() < 1e-12, "({bits}, {loss}): {found}, expected {expected}");
        }
    }

    #[test]
    fn few_seeds_are_those_that_cover_most() {
        let candidates: Vec<_> = [(0.0, 10.0), (1.0, 9.9), (5.0, 1.0), (10.0, 0.0)]
            .iter()
            .enumerate()
            .map(|(index, &(bits, loss))| (Genome::new(vec![index]), Objectives { bits, loss }))
            .collect();
        let reference = Objectives { bits: 11.0, loss: 11.0 };
        let chosen = greedy(&Archive::default(), &candidates, 2, reference, 0.0);
        assert_eq!(chosen, [Genome::new(vec![2]), Genome::new(vec![0])]);
    }
}
