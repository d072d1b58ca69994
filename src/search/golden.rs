//! Against exact fronts.
#![allow(clippy::print_stderr, reason = "a skipped test says so, and figures are worth reading")]

use serde_json::Value;

use super::*;
use crate::space::hypervolume;

fn reference() -> Option<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/golden/search.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: no reference file search.json");
        return None;
    };
    Some(serde_json::from_str(&text).expect("reference files are JSON"))
}

/// A problem with a known front.
struct Case {
    problem: Problem,
    table: LossTable,
    loss: Box<dyn Fn(&Genome) -> f64>,
    worst: f64,
    front: Vec<(f64, f64)>,
    exact: f64,
}

impl Case {
    /// Hypervolume on the reference's axes, as a share of the exact front's.
    fn ratio(&self, archive: &Archive) -> f64 {
        let scaled = |at: Objectives| ((at.bits - 2.0) / 6.0, at.loss / self.worst);
        let points: Vec<_> = archive.front().iter().map(|member| scaled(member.1)).collect();
        hypervolume(&points, (1.1, 1.1)) / self.exact
    }

    fn run(&self, algorithm: Algorithm, options: &SearchOptions) -> Search {
        let mut search = Search::new(self.problem.clone(), algorithm, options).expect("starts");
        while !search.is_done() {
            let batch = search.ask();
            let at = |genome: &Genome| Objectives {
                bits: self.problem.bits().of(genome),
                loss: (self.loss)(genome),
            };
            let told: Vec<_> = batch.iter().map(|genome| (genome.clone(), at(genome))).collect();
            search.tell(&told);
        }
        search
    }

    fn mean(&self, algorithm: Algorithm, evaluations: usize, seeds: u64, seeded: bool) -> f64 {
        let ratio = |seed| {
            let table = seeded.then(|| self.table.clone());
            let options = SearchOptions { evaluations, seed, table, uniform: seeded, moead: None };
            self.ratio(self.run(algorithm, &options).archive())
        };
        (0..seeds).map(ratio).sum::<f64>() / seeds as f64
    }

    fn assert_front(&self, archive: &Archive) {
        assert_eq!(archive.len(), self.front.len());
        for (member, &(bits, loss)) in archive.front().iter().zip(&self.front) {
            assert!((member.1.bits - bits).abs() < 1e-5, "{} bits, expected {bits}", member.1.bits);
            assert!((member.1.loss / loss - 1.0).abs() < 1e-9, "{}, expected {loss}", member.1.loss);
        }
    }
}

fn front(value: &Value) -> Vec<(f64, f64)> {
    let at = |point: &Value, axis: usize| point[axis].as_f64().expect("a number");
    value["front"].as_array().expect("a list").iter().map(|point| (at(point, 0), at(point, 1))).collect()
}

fn own_loss(weight: f64, key: i32, value: i32) -> f64 {
    weight * (4.0 * 4_f64.powi(-key) + 4_f64.powi(-value))
}

/// w of group l: 1 + ((7l + 3) mod 11).
fn weight(group: usize) -> f64 {
    1.0 + ((7 * group + 3) % 11) as f64
}

/// The multiple-choice knapsack with so many groups, and its exact front.
fn knapsack(reference: &Value, n_groups: usize) -> Case {
    let cases = reference["exact"].as_array().expect("a list");
    let case = cases.iter().find(|case| case["groups"].as_u64() == Some(n_groups as u64)).expect("listed");
    let pairs = [(2, 2), (2, 4), (4, 2), (4, 4), (2, 8), (8, 2), (4, 8), (8, 4), (8, 8)];
    let bits = vec![pairs.map(|(key, value)| f64::from(key + value) / 2.0).to_vec(); n_groups];
    let rows =
        (0..n_groups).map(|group| pairs.map(|(key, value)| own_loss(weight(group), key, value)).to_vec());
    let problem = Problem::new(Additive::new(bits, n_groups as f64).expect("a table")).expect("ordered");
    let table = LossTable::new(rows.collect(), &problem).expect("fits");
    let additive = table.clone();
    let loss = move |genome: &Genome| additive.predict(genome);
    let worst = table.predict(&Genome::new(vec![0; n_groups]));
    let exact = case["hypervolume_ref_1_1"].as_f64().expect("a number");
    Case { problem, table, loss: Box::new(loss), worst, front: front(case), exact }
}

/// Six groups whose losses interact; choices are reversed here, fewest bits first.
fn interacting(reference: &Value) -> Case {
    let pairs = [(2, 2), (4, 2), (4, 4), (8, 4), (8, 8)];
    let bits = vec![pairs.map(|(key, value)| f64::from(key + value) / 2.0).to_vec(); 6];
    let problem = Problem::new(Additive::new(bits, 6.0).expect("a table")).expect("ordered");
    let own = |group: usize| pairs.map(|(key, value)| own_loss(weight(group), key, value)).to_vec();
    let table = LossTable::new((0..6).map(own).collect(), &problem).expect("fits");
    let rows: Vec<Vec<f64>> = table.losses().to_vec();
    let loss = move |genome: &Genome| {
        let choices = genome.choices();
        let own: Vec<f64> = choices.iter().zip(&rows).map(|(&choice, row)| row[choice]).collect();
        let neighbors: f64 = own.windows(2).map(|two| (two[0] * two[1]).sqrt()).sum();
        let ends = (8.0 - (choices[0] + choices[5]) as f64 - 4.0).max(0.0);
        own.iter().sum::<f64>() + 3.0 * neighbors + 2.0 * (own[0] * own[5]).sqrt() * ends
    };
    let worst = loss(&Genome::new(vec![0; 6]));
    let exact = reference["interacting"]["hypervolume_ref_1_1"].as_f64().expect("a number");
    Case { problem, table, loss: Box::new(loss), worst, front: front(&reference["interacting"]), exact }
}

#[test]
fn additive_equals_the_exact_fronts() {
    let Some(reference) = reference() else { return };
    for n_groups in [4, 8, 32] {
        let case = knapsack(&reference, n_groups);
        let options =
            SearchOptions { evaluations: 500, table: Some(case.table.clone()), ..SearchOptions::default() };
        let search = case.run(Algorithm::Additive, &options);
        case.assert_front(search.archive());
        assert_eq!(search.evaluated(), case.front.len());
        assert!((case.ratio(search.archive()) - 1.0).abs() < 1e-7);
    }
}

#[test]
fn exhaustive_equals_the_exact_front() {
    let Some(reference) = reference() else { return };
    let case = knapsack(&reference, 4);
    let options = SearchOptions { evaluations: 6561, ..SearchOptions::default() };
    case.assert_front(case.run(Algorithm::Exhaustive, &options).archive());
    let case = interacting(&reference);
    let options = SearchOptions { evaluations: 15625, ..SearchOptions::default() };
    case.assert_front(case.run(Algorithm::Exhaustive, &options).archive());
}

#[test]
fn moead_nears_the_exact_front_unseeded() {
    let Some(reference) = reference() else { return };
    for (n_groups, least) in [(8, 0.985), (32, 0.92)] {
        let mean = knapsack(&reference, n_groups).mean(Algorithm::Moead, 10_000, 5, false);
        eprintln!(
            "moead, unseeded, {n_groups} groups, 10,000 evaluations: {mean:.5} of the exact hypervolume"
        );
        assert!(mean >= least, "{n_groups} groups: {mean}");
    }
}

#[test]
fn moead_seeded_with_the_additive_front_has_the_exact_front_where_losses_add_up() {
    let Some(reference) = reference() else { return };
    for n_groups in [8, 32] {
        let case = knapsack(&reference, n_groups);
        assert!((case.mean(Algorithm::Moead, 500, 2, true) - 1.0).abs() < 1e-7);
    }
}

#[test]
fn moead_passes_the_baselines_where_losses_interact() {
    let Some(reference) = reference() else { return };
    let case = interacting(&reference);
    let expected = reference["interacting"]["additive_ratio"].as_f64().expect("a number");
    let additive = case.mean(Algorithm::Additive, 200, 1, true);
    assert!((additive - expected).abs() < 1e-6, "additive alone: {additive}, expected {expected}");
    // 20 is what a budget of 50 leaves when the table of 6 × 5 losses had to be measured.
    for (evaluations, least) in [(20, 0.99), (26, 0.995), (50, 0.999), (200, 0.9999)] {
        let mean = |algorithm, seeded| case.mean(algorithm, evaluations, 10, seeded);
        let moead = mean(Algorithm::Moead, true);
        let baselines = [
            ("additive", mean(Algorithm::Additive, true)),
            ("nsga2", mean(Algorithm::Nsga2, false)),
            ("nsga2, seeded", mean(Algorithm::Nsga2, true)),
            ("random", mean(Algorithm::Random, false)),
            ("moead, unseeded", mean(Algorithm::Moead, false)),
        ];
        eprintln!("{evaluations} evaluations: moead {moead:.5}, {baselines:.5?}");
        assert!(moead >= least, "{evaluations} evaluations: {moead}");
        for (name, baseline) in baselines {
            assert!(moead > baseline, "{evaluations} evaluations: {name} has {baseline}, moead {moead}");
        }
    }
}
