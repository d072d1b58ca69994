//! What every searcher must keep to, whatever its algorithm.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::space::{Space, dominates};

const SPACE: &str = "
n_layers: 6
pairs: [KV2, K4V2, KV4, K8V4, KV8]
groups:
  - {layers: [0], candidates: [KV2, K4V2, KV4, K8V4, KV8]}
  - {layers: [1, 3], candidates: [KV2, K2V4, KV4, KV8]}
  - {layers: [2], candidates: [KV2, KV4, KV8]}
  - {layers: [4], candidates: [KV2, K4V2, KV4, KV8]}
  - {layers: [5], candidates: [KV2, KV4, K8V4, KV8]}
";
const BUDGET: usize = 60;

fn problem() -> Problem {
    let space: Space = serde_yaml::from_str(SPACE).expect("a space");
    let problem = Problem::of_space(&space, &[64; 6]).expect("widths fit");
    problem.with_max_bits(6.0).and_then(|problem| problem.with_max_loss(3.0)).expect("within reach")
}

/// A loss with an interaction of neighboring groups, and one genome in seven that cannot be told from its twin.
fn loss(genome: &Genome) -> f64 {
    let weights = [3.0, 5.0, 1.0, 2.0, 4.0];
    let own: Vec<f64> = genome
        .choices()
        .iter()
        .zip(weights)
        .map(|(&choice, weight)| weight / 4_f64.powi(choice as i32))
        .collect();
    let shared: f64 = own.windows(2).map(|two| (two[0] * two[1]).sqrt()).sum();
    own.iter().sum::<f64>() + shared
}

fn table(problem: &Problem) -> LossTable {
    let weights = [3.0, 5.0, 1.0, 2.0, 4.0];
    let row = |(group, weight): (usize, f64)| {
        (0..problem.n_choices(group)).map(|choice| weight / 4_f64.powi(choice as i32)).collect()
    };
    LossTable::new(weights.into_iter().enumerate().map(row).collect(), problem).expect("fits")
}

fn evaluate(problem: &Problem, genome: &Genome) -> (Genome, Objectives) {
    (genome.clone(), Objectives { bits: problem.bits().of(genome), loss: loss(genome) })
}

/// Every algorithm, seeded and unseeded where that makes a difference.
fn searches(seed: u64) -> Vec<(String, Search)> {
    let problem = problem();
    let mut searches = Vec::new();
    for algorithm in Algorithm::ALL {
        for seeded in [false, true] {
            let seeds = matches!(algorithm, Algorithm::Moead | Algorithm::Nsga2);
            let table = (seeded || !seeds).then(|| table(&problem));
            let evaluations = if algorithm == Algorithm::Exhaustive { 960 } else { BUDGET };
            let options = SearchOptions { evaluations, seed, table, uniform: seeded, moead: None };
            let search = Search::new(problem.clone(), algorithm, &options).expect("starts");
            searches.push((format!("{algorithm}, seeded: {seeded}"), search));
        }
    }
    searches
}

/// Runs to the end, and gives the genomes in the order asked.
fn run(search: &mut Search) -> Vec<Genome> {
    let mut asked = Vec::new();
    while !search.is_done() {
        let batch = search.ask();
        let told: Vec<_> = batch.iter().map(|genome| evaluate(&search.problem, genome)).collect();
        search.tell(&told);
        asked.extend(batch);
    }
    asked
}

#[test]
fn the_same_seed_gives_the_same_front_and_another_seed_another_search() {
    for ((name, mut first), (_, mut second)) in searches(7).into_iter().zip(searches(7)) {
        assert_eq!(run(&mut first), run(&mut second), "{name}");
        assert_eq!(first.archive(), second.archive(), "{name}");
    }
    let asked = |seed| searches(seed).iter_mut().map(|(_, search)| run(search)).collect::<Vec<_>>();
    let (one, two) = (asked(1), asked(2));
    // MOEA/D, NSGA-II and random draw; the other four are lists.
    assert_eq!(one.iter().zip(&two).filter(|(a, b)| a != b).count(), 6);
}

#[test]
fn results_in_any_order_and_number_give_the_same_search() {
    for ((name, mut orderly), (_, mut scattered)) in searches(3).into_iter().zip(searches(3)) {
        let expected = run(&mut orderly);
        let mut asked = Vec::new();
        while !scattered.is_done() {
            let batch = scattered.ask();
            let mut told: Vec<_> = batch.iter().map(|genome| evaluate(&scattered.problem, genome)).collect();
            told.reverse();
            for piece in told.chunks(3) {
                assert!(scattered.ask().is_empty(), "{name}: asked while a batch was pending");
                scattered.tell(piece);
            }
            asked.extend(batch);
        }
        assert_eq!(asked, expected, "{name}");
        assert_eq!(scattered.archive(), orderly.archive(), "{name}");
    }
}

#[test]
fn an_interrupted_search_goes_on_from_its_rows_to_the_same_front() {
    for ((name, mut whole), (_, mut resumed)) in searches(5).into_iter().zip(searches(5)) {
        let asked = run(&mut whole);
        let written = &asked[..asked.len() / 3];
        let rows: BTreeMap<_, _> = written.iter().map(|genome| evaluate(&whole.problem, genome)).collect();
        let open = replay(&mut resumed, &rows);
        assert!(open.iter().all(|genome| !rows.contains_key(genome)), "{name}: evaluated twice");
        let told: Vec<_> = open.iter().map(|genome| evaluate(&whole.problem, genome)).collect();
        resumed.tell(&told);
        run(&mut resumed);
        assert_eq!(resumed.archive(), whole.archive(), "{name}");
        assert_eq!(resumed.memo(), whole.memo(), "{name}");
    }
}

#[test]
fn a_search_written_and_read_in_the_middle_of_a_batch_goes_on_unchanged() {
    for ((name, mut whole), (_, mut search)) in searches(5).into_iter().zip(searches(5)) {
        run(&mut whole);
        while !search.is_done() {
            let batch = search.ask();
            let mut told: Vec<_> = batch.iter().map(|genome| evaluate(&search.problem, genome)).collect();
            let late = told.split_off(told.len() / 2);
            search.tell(&told);
            let text = serde_yaml::to_string(&search).expect("writes");
            search = serde_yaml::from_str(&text).expect("reads");
            search.tell(&late);
        }
        assert_eq!(search.archive(), whole.archive(), "{name}");
        assert_eq!(search.memo(), whole.memo(), "{name}");
    }
}

#[test]
fn nothing_is_asked_twice_over_the_budget_or_over_a_limit() {
    for (name, mut search) in searches(11) {
        let asked = run(&mut search);
        let distinct: BTreeSet<_> = asked.iter().collect();
        assert_eq!(distinct.len(), asked.len(), "{name}");
        assert!(!asked.is_empty() && asked.len() <= search.budget(), "{name}: {}", asked.len());
        assert_eq!(search.evaluated(), asked.len(), "{name}");
        assert!(asked.iter().all(|genome| search.problem().is_within_limits(genome)), "{name}");
        assert!(search.ask().is_empty() && search.is_done(), "{name}");
    }
}

#[test]
fn the_archive_is_the_front_of_all_that_was_told() {
    for (name, mut search) in searches(13) {
        run(&mut search);
        let points: Vec<_> = search.memo().values().map(|at| at.point()).collect();
        for member in search.archive().front() {
            assert!(!points.iter().any(|&other| dominates(other, member.1.point())), "{name}");
        }
        let covered = |point| {
            let mut front = search.archive().front().iter();
            front.any(|(_, at)| {
                dominates(at.point(), point) || !at.differs_from(Objectives { bits: point.0, loss: point.1 })
            })
        };
        assert!(points.iter().all(|&point| covered(point)), "{name}");
    }
}

#[test]
fn searches_that_draw_spend_the_budget() {
    for (name, mut search) in searches(17) {
        let spends = ["moead", "nsga2", "random"].iter().any(|drawn| name.starts_with(drawn));
        assert!(!spends || run(&mut search).len() == BUDGET, "{name}");
    }
}

#[test]
fn losses_that_are_no_number_never_reach_the_front_and_never_stop_a_search() {
    for (name, mut search) in searches(19) {
        let mut asked = 0;
        while !search.is_done() {
            let batch = search.ask();
            let told = batch.iter().enumerate().map(|(index, genome)| {
                let loss = [f64::NAN, loss(genome), f64::INFINITY][(asked + index) % 3];
                (genome.clone(), Objectives { bits: 0.0, loss })
            });
            search.tell(&told.collect::<Vec<_>>());
            asked += batch.len();
        }
        assert!(search.archive().front().iter().all(|member| member.1.is_finite()), "{name}");
    }
}

#[test]
fn results_nobody_asked_for_are_passed_over() {
    for (name, mut search) in searches(23) {
        let stranger = Genome::new(vec![9; 5]);
        search.tell(&[(stranger.clone(), Objectives { bits: 0.0, loss: 0.0 })]);
        assert_eq!(search.evaluated(), 0, "{name}");
        let batch = search.ask();
        search.tell(&[(stranger, Objectives { bits: 0.0, loss: 0.0 })]);
        assert_eq!(search.pending(), batch, "{name}");
    }
}

/// Losses beyond `max_loss` stay in the archive, for the nearest map to be named, but do not attract the search.
#[test]
fn a_search_under_a_loss_limit_finds_the_smallest_feasible_map() {
    let problem = problem();
    let all = feasible::all_within(&problem, 960).expect("960 at most");
    let feasible = all.iter().filter(|genome| loss(genome) <= 3.0);
    let smallest = feasible.map(|genome| problem.bits().of(genome)).fold(f64::INFINITY, f64::min);
    let options =
        SearchOptions { evaluations: BUDGET, table: Some(table(&problem)), ..SearchOptions::default() };
    let mut search = Search::new(problem, Algorithm::Moead, &options).expect("starts");
    run(&mut search);
    let found = search.archive().front().iter().filter(|member| member.1.loss <= 3.0);
    let found = found.map(|member| member.1.bits).fold(f64::INFINITY, f64::min);
    assert!((found - smallest).abs() < 1e-12, "{found}, but {smallest} is feasible");
}
