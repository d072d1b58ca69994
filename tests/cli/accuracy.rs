//! Jobs whose maps are marked by answers.

use std::path::Path;

use super::{folder, kvtune, outcome, tiny};

/// A tiny model, sixty questions with four choices each, and a job that searches on them.
fn job(answers: &str) -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let row = |i: usize| format!("Which of {i}?,a{i},b{i},c{i},d{i},{}\n", ["A", "B", "C", "D"][i * 7 % 4]);
    let questions: String = (0..60).map(row).collect();
    std::fs::write(folder.path().join("law_test.csv"), questions).expect("written");
    tiny::write_job(folder.path(), "", ", objective: accuracy");
    let path = folder.path().join("job.yaml");
    let text = std::fs::read_to_string(&path).expect("the job");
    std::fs::write(path, format!("{text}answers: {{{answers}}}\n")).expect("written");
    folder
}

const MMLU: &str =
    "tasks: [{task: mmlu, data: law_test.csv}], items: {search: 15, select: 15, test: 15}, block: 4";

fn calibrate(folder: &Path, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["-qq", "calibrate", "job.yaml"]).args(options))
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn maps_are_marked_on_questions_of_their_own_split() {
    let folder = job(MMLU);
    assert!(calibrate(folder.path(), &[]).starts_with("exit 0"));
    let answers = read(folder.path(), "out/answers.csv");
    let mut reader = csv::Reader::from_reader(answers.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let questions: std::collections::BTreeSet<&str> = rows.iter().map(|row| &row[1]).collect();
    assert!(questions.len() > 30, "three splits of up to 15 questions: {}", questions.len());
    let losses: Vec<f64> = read(folder.path(), "out/evaluations.csv")
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().and_then(|loss| loss.parse().ok()).expect("a loss"))
        .collect();
    assert!(losses.iter().any(|loss| loss.abs() > 1.0 / 16.0), "some answer changes: {losses:?}");
    assert!(read(folder.path(), "out/precision.yaml").contains("name: accuracy"));
}

#[test]
fn threads_lanes_and_kept_answers_change_no_result() {
    let folder = job(MMLU);
    assert!(calibrate(folder.path(), &["-j", "1", "-o", "one"]).starts_with("exit 0"));
    let files = ["evaluations.csv", "pareto.csv", "precision.yaml"];
    let same = |other: &str| {
        for file in files {
            let (one, two) = (format!("one/{file}"), format!("{other}/{file}"));
            assert_eq!(read(folder.path(), &one), read(folder.path(), &two), "{file} of {other}");
        }
    };
    assert!(calibrate(folder.path(), &["-j", "2", "-o", "two"]).starts_with("exit 0"));
    same("two");
    // What a run leaves that is stopped in the middle: half of its answers, and no stage done.
    let answers = read(folder.path(), "two/answers.csv");
    let kept: Vec<&str> = answers.lines().take(answers.lines().count() / 2).collect();
    std::fs::write(folder.path().join("two/answers.csv"), kept.join("\n") + "\n").expect("written");
    for file in ["run.yaml", "evaluations.csv", "pareto.csv", "precision.yaml"] {
        std::fs::remove_file(folder.path().join("two").join(file)).expect("removed");
    }
    let shown = calibrate(folder.path(), &["-o", "two"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    same("two");
    // More or fewer lanes are no other run.
    let job = read(folder.path(), "job.yaml").replace("block: 4", "block: 4, lanes: 3");
    std::fs::write(folder.path().join("job.yaml"), job).expect("written");
    let before = read(folder.path(), "two/run.yaml");
    let shown = calibrate(folder.path(), &["-o", "two"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert_eq!(before, read(folder.path(), "two/run.yaml"), "no stage ran again");
}

/// Two tasks, each an objective of its own.
fn each(folder: &Path) {
    let row = |i: usize| format!("Who of {i}?,e{i},f{i},g{i},h{i},{}\n", ["A", "B", "C", "D"][i * 5 % 4]);
    let questions: String = (0..60).map(row).collect();
    std::fs::write(folder.join("people_test.csv"), questions).expect("written");
}

const EACH: &str = "tasks: [{task: mmlu, data: law_test.csv}, {task: mmlu, data: people_test.csv}], \
                    combine: each, items: {search: 12, select: 12, test: 12}";

/// Three columns of a table, row by row.
fn columns(folder: &Path, file: &str, wanted: [&str; 3]) -> Vec<[String; 3]> {
    let text = read(folder, file);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().expect("a header").clone();
    let places = wanted.map(|name| headers.iter().position(|header| header == name).expect("a column"));
    reader.records().map(|row| row.expect("a row")).map(|row| places.map(|at| row[at].to_owned())).collect()
}

#[test]
fn of_several_objectives_the_front_keeps_what_is_best_in_one() {
    let folder = job(EACH);
    each(folder.path());
    let shown = calibrate(folder.path(), &[]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    for page in ["out/pareto.svg", "out/report.html"] {
        assert!(read(folder.path(), page).contains("in the worst task"), "{page} says which loss it shows");
    }
    let mut points = std::collections::BTreeMap::<String, Vec<f64>>::new();
    for [map, bits, loss] in columns(folder.path(), "out/task-losses.csv", ["map", "equivalent_bits", "loss"])
    {
        let point = points.entry(map).or_insert_with(|| vec![bits.parse().expect("bits")]);
        point.push(loss.parse().expect("a loss"));
    }
    assert!(points.values().all(|point| point.len() == 3), "bits and two losses: {points:?}");
    let rows = columns(folder.path(), "out/pareto.csv", ["map", "role", "search_loss"]);
    let of_front = rows.into_iter().filter(|[_, role, _]| role != "uniform");
    let front: std::collections::BTreeSet<String> = of_front.map(|[map, ..]| map).collect();
    for (map, point) in &points {
        let beats = |other: &Vec<f64>| point != other && other.iter().zip(point).all(|(b, a)| b <= a);
        assert_eq!(front.contains(map), !points.values().any(beats), "{map} in {points:?}");
    }
}

#[test]
fn losses_by_task_are_written_anew_from_kept_answers() {
    let folder = job(EACH);
    each(folder.path());
    let files = ["evaluations.csv", "task-losses.csv", "pareto.csv", "precision.yaml"];
    let found = || files.map(|file| read(folder.path(), &format!("out/{file}")));
    assert!(calibrate(folder.path(), &["-j", "1"]).starts_with("exit 0"));
    let first = found();
    let answers = folder.path().join("out/answers.csv");
    let text = read(folder.path(), "out/answers.csv");
    let half: Vec<&str> = text.lines().take(text.lines().count() / 2).collect();
    std::fs::write(&answers, half.join("\n") + "\n").expect("written");
    std::fs::remove_file(folder.path().join("out/task-losses.csv")).expect("removed");
    assert!(calibrate(folder.path(), &["-j", "2"]).starts_with("exit 0"));
    assert!(first == found(), "the same files");
    std::fs::write(folder.path().join("out/task-losses.csv"), first[1].replace(",1,mmlu,", ",2,mmlu,"))
        .expect("written");
    let shown = calibrate(folder.path(), &[]);
    assert!(shown.starts_with("exit 1") && shown.contains("task-losses.csv"), "{shown}");
}

#[test]
fn maps_that_are_fixed_beforehand_are_searched_once_with_the_whole_budget() {
    let folder = job(EACH);
    each(folder.path());
    let random =
        read(folder.path(), "job.yaml").replace("evaluations: 20", "algorithm: random, evaluations: 6");
    std::fs::write(folder.path().join("job.yaml"), random).expect("written");
    assert!(calibrate(folder.path(), &[]).starts_with("exit 0"));
    let rows = columns(folder.path(), "out/evaluations.csv", ["map", "kind", "loss"]);
    assert_eq!(rows.iter().filter(|[_, kind, _]| kind == "search").count(), 6);
}

#[test]
fn a_budget_below_one_evaluation_a_search_is_refused() {
    let folder = job(EACH);
    each(folder.path());
    let scarce = read(folder.path(), "job.yaml").replace("evaluations: 20", "evaluations: 2");
    std::fs::write(folder.path().join("job.yaml"), scarce).expect("written");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `search.evaluations`: is 2, expected 3 or more: `combine: each` searches once a task and once for all
    ");
}

#[test]
fn a_job_that_says_only_half_is_refused() {
    let folder = job("tasks: []");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `answers.tasks`: names no task, expected one or more
    ");
    let folder = job("tasks: [{task: gsm9k}]");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `answers.tasks`: unknown task `gsm9k`, expected one of `gsm8k`, `gsm8k-multiturn`, `mmlu`, `ceval`, `race`, `truthfulqa-mc1`, `truthfulqa-mc2`, `gpqa`, `triviaqa`, `longbench`, `ruler-niah-single`, `ruler-niah-multikey`, `ruler-niah-multivalue`, `ruler-niah-multiquery`, `ruler-vt`, `ruler-cwe`, `ruler-fwe`

    hint: did you mean `gsm8k`?
    ");
    let folder = job("tasks: [{task: mmlu, data: nowhere.csv}]");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `answers.tasks.data` names `nowhere.csv`, which is neither beside the file nor in the current directory

    hint: write the path of a file that exists after `answers.tasks.data:`
    ");
    let folder = job("tasks: [{task: ruler-vt}, {task: ruler-vt}]");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `answers.tasks`: names `ruler-vt` twice with the same fields, expected each task once
    ");
    let folder = job("tasks: [{task: mmlu, date: nowhere.csv}]");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `answers.tasks[0].date`: unknown field `date`, expected one of `task`, `data`, `train`, `template`, `shots`, `length`, `max_new_tokens`
    ");
    tiny::write_job(folder.path(), "", ", objective: accuracy");
    insta::assert_snapshot!(calibrate(folder.path(), &[]), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `search.objective`: is `accuracy`, but the job has no `answers` that say what is asked

    hint: add `answers: {tasks: [{task: ruler-niah-single, length: 512}]}`
    ");
}
