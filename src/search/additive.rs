use serde::{Deserialize, Serialize};

use super::problem::{Problem, check_table};
use super::{Objectives, SearchError};
use crate::space::Genome;

/// Loss of each choice of each group alone, `[group][choice]`: what the additive model sums.
///
/// Either e_o, or the end-to-end loss with only that group quantized. Measuring such a loss costs evaluations: whoever
/// measures it takes them off the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossTable(Vec<Vec<f64>>);

impl LossTable {
    /// A table of the problem's shape.
    ///
    /// # Errors
    /// Another shape, or an entry that is not finite.
    pub fn new(losses: Vec<Vec<f64>>, problem: &Problem) -> Result<Self, SearchError> {
        check_table("loss", &losses)?;
        problem.check_shape("loss", &losses)?;
        Ok(Self(losses))
    }

    /// The predicted loss: the sum over groups; NaN for a genome of another shape.
    pub fn predict(&self, genome: &Genome) -> f64 {
        if genome.n_groups() != self.0.len() {
            return f64::NAN;
        }
        let entry = |(row, &choice): (&Vec<f64>, &usize)| row.get(choice).copied().unwrap_or(f64::NAN);
        self.0.iter().zip(genome.choices()).map(entry).sum()
    }

    /// The losses, `[group][choice]`.
    pub fn losses(&self) -> &[Vec<f64>] {
        &self.0
    }
}

/// The exact front of Σ loss against Σ bits, within the limits, fewest bits first: a dynamic program over groups.
///
/// After each group it keeps, of all partial choices that can still be completed within the limits, those that no
/// other dominates. That is exact for a limit on bits, and for any limit that bits decide (a map of no more bits
/// stores no more bytes), as they do when all pairs are coded alike. The predicted loss is in the objectives.
///
/// **Ours** as a use: KVTuner has no such model. The program is the textbook one for multiple-choice knapsacks.
pub fn additive_front(problem: &Problem, table: &LossTable) -> Vec<(Genome, Objectives)> {
    let rest: Vec<Vec<f64>> = problem.limits().iter().map(|limit| limit.cost.least_from()).collect();
    let mut states = vec![State::start(problem)];
    for group in 0..problem.n_groups().min(table.0.len()) {
        let grown = states.iter().flat_map(|state| {
            (0..problem.n_choices(group)).map(move |choice| state.grow(problem, table, group, choice))
        });
        let fits = |state: &State| state.may_fit(problem, &rest, group + 1);
        states = undominated(grown.filter(fits).collect());
    }
    let finished = states.into_iter().map(|state| {
        let genome = Genome::new(state.choices);
        let objectives = Objectives { bits: problem.bits().of(&genome), loss: table.predict(&genome) };
        (genome, objectives)
    });
    finished.filter(|(genome, _)| problem.is_within_limits(genome)).collect()
}

struct State {
    bits: f64,
    loss: f64,
    limits: Vec<f64>,
    choices: Vec<usize>,
}

impl State {
    fn start(problem: &Problem) -> Self {
        Self { bits: 0.0, loss: 0.0, limits: vec![0.0; problem.limits().len()], choices: Vec::new() }
    }

    fn grow(&self, problem: &Problem, table: &LossTable, group: usize, choice: usize) -> Self {
        let limits = self.limits.iter().zip(problem.limits());
        let mut choices = self.choices.clone();
        choices.push(choice);
        Self {
            bits: self.bits + problem.bits().table()[group][choice],
            loss: self.loss + table.0[group][choice],
            limits: limits.map(|(sum, limit)| sum + limit.cost.table()[group][choice]).collect(),
            choices,
        }
    }

    fn may_fit(&self, problem: &Problem, rest: &[Vec<f64>], group: usize) -> bool {
        let mut limits = problem.limits().iter().zip(&self.limits).zip(rest);
        limits.all(|((limit, sum), rest)| {
            limit.cost.divided(sum + rest[group]) <= limit.max + limit.max.abs() * 1e-12
        })
    }
}

/// Of states sorted by bits, those whose loss falls; `space::dominates` on a sorted list. Ties: the first choices.
fn undominated(mut states: Vec<State>) -> Vec<State> {
    states.sort_by(|a, b| {
        a.bits.total_cmp(&b.bits).then(a.loss.total_cmp(&b.loss)).then(a.choices.cmp(&b.choices))
    });
    let mut least = f64::INFINITY;
    states.retain(|state| {
        let better = state.loss < least;
        least = least.min(state.loss);
        better
    });
    states
}

/// At most `budget` points of a front, as evenly along bits as it allows; both ends stay when `budget` is 2 or more.
pub(super) fn evenly_along_bits(front: &[(Genome, Objectives)], budget: usize) -> Vec<Genome> {
    if front.len() <= budget {
        return front.iter().map(|point| point.0.clone()).collect();
    }
    let bits = |index: usize| front[index].1.bits;
    let (low, high) = (bits(0), bits(front.len() - 1));
    let mut chosen: Vec<usize> = Vec::with_capacity(budget);
    for place in 0..budget {
        let wanted = low + (high - low) * place as f64 / (budget.max(2) - 1) as f64;
        let free = (0..front.len()).filter(|index| !chosen.contains(index));
        chosen.extend(free.min_by(|&a, &b| (bits(a) - wanted).abs().total_cmp(&(bits(b) - wanted).abs())));
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|index| front[index].0.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::feasible::all_within;
    use super::super::problem::Additive;
    use super::*;
    use crate::space::pareto_indices;

    fn problem(n_groups: usize) -> Problem {
        let bits = Additive::new(vec![vec![2.0, 4.0, 8.0]; n_groups], n_groups as f64).expect("a table");
        Problem::new(bits).expect("ordered")
    }

    #[test]
    fn the_front_of_two_groups_is_the_one_done_by_hand() {
        let problem = problem(2);
        let table = LossTable::new(vec![vec![9.0, 4.0, 0.0], vec![3.0, 1.0, 0.0]], &problem).expect("fits");
        let front = additive_front(&problem, &table);
        let points: Vec<String> =
            front.iter().map(|(genome, at)| format!("{genome} {} {}", at.bits, at.loss)).collect();
        let expected = ["0-0 2 12", "1-0 3 7", "1-1 4 5", "2-0 5 3", "2-1 6 1", "2-2 8 0"];
        assert_eq!(points, expected);
    }

    #[test]
    fn a_limit_cuts_the_front_where_it_stands() {
        let problem = problem(2).with_max_bits(5.0).expect("within reach");
        let table = LossTable::new(vec![vec![9.0, 4.0, 0.0], vec![3.0, 1.0, 0.0]], &problem).expect("fits");
        let last = additive_front(&problem, &table).pop().expect("a front");
        assert_eq!(last.0.to_string(), "2-0");
    }

    #[test]
    fn a_table_of_another_shape_is_refused() {
        let error = LossTable::new(vec![vec![1.0, 2.0]], &problem(1)).expect_err("3 choices");
        assert_eq!(error.to_string(), "the loss table has [2] choices per group, but the space has [3]");
    }

    #[test]
    fn a_long_front_is_thinned_evenly_and_keeps_its_ends() {
        let at = |bits: usize| (Genome::new(vec![bits]), Objectives { bits: bits as f64, loss: 0.0 });
        let front: Vec<_> = (0..=10).map(at).collect();
        let thinned = |budget| -> Vec<usize> {
            evenly_along_bits(&front, budget).iter().map(|genome| genome.choices()[0]).collect()
        };
        assert_eq!(thinned(3), [0, 5, 10]);
        assert_eq!(thinned(1), [0]);
        assert_eq!(thinned(11).len(), 11);
    }

    proptest! {
        #[test]
        fn the_front_equals_enumeration(losses in prop::collection::vec(0u32..1000, 12), max in 2.0..8.0f64) {
            let rows: Vec<Vec<f64>> = losses.chunks(3).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect();
            let problem = problem(4).with_max_bits(max).expect("2 is within reach");
            let table = LossTable::new(rows, &problem).expect("fits");
            let all = all_within(&problem, 81).expect("81 at most");
            let points: Vec<_> = all.iter().map(|genome| (problem.bits().of(genome), table.predict(genome))).collect();
            let mut exact: Vec<_> = pareto_indices(&points).into_iter().map(|index| points[index]).collect();
            exact.sort_by(|a, b| a.0.total_cmp(&b.0));
            exact.dedup();
            let front: Vec<_> = additive_front(&problem, &table).iter().map(|point| point.1.point()).collect();
            prop_assert_eq!(front, exact);
        }
    }
}
