use std::path::Path;

use super::{folder, kvtune, outcome, tiny};

/// The files that must not depend on anything but the job.
const RESULTS: [&str; 4] = ["pareto.csv", "precision.yaml", "evaluations.csv", "sensitivity.csv"];

fn calibrate(folder: &Path, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["-qq", "calibrate", "job.yaml"]).args(options))
}

fn results(folder: &Path, out: &str) -> Vec<Vec<u8>> {
    RESULTS.iter().map(|name| std::fs::read(folder.join(out).join(name)).expect("a result")).collect()
}

/// Standard error alone, after the exit code was checked.
fn failed(code: u8, shown: &str) -> String {
    let start = format!("exit {code}\n--- stdout\n--- stderr\n");
    shown.strip_prefix(&start).unwrap_or_else(|| panic!("expected exit {code}: {shown}")).to_owned()
}

#[test]
fn a_job_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = folder();
    tiny::write(folder.path());
    for (threads, out) in [("1", "one"), ("2", "two")] {
        let shown = calibrate(folder.path(), &["-j", threads, "-o", out]);
        assert!(shown.starts_with("exit 0"), "{shown}");
    }
    assert_eq!(results(folder.path(), "one"), results(folder.path(), "two"));
}

/// Ctrl-C as soon as the search has written some rows; the same command then gives what an undisturbed run gives.
#[cfg(unix)]
#[test]
fn a_search_that_was_stopped_goes_on_to_the_same_bytes() {
    use std::time::Duration;

    let folder = folder();
    tiny::write(folder.path());
    let many = "trace: {documents: {search: 8, select: 2, test: 2}, min_tokens: 64, max_new_tokens: 16}";
    let job = std::fs::read_to_string(folder.path().join("job.yaml")).expect("a job");
    let job: Vec<&str> =
        job.lines().map(|line| if line.starts_with("trace:") { many } else { line }).collect();
    std::fs::write(folder.path().join("job.yaml"), job.join("\n")).expect("written");
    assert!(calibrate(folder.path(), &["-o", "whole"]).starts_with("exit 0"));

    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("kvtune"))
        .args(["-qq", "calibrate", "job.yaml", "-j", "1"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let rows = folder.path().join("out/evaluations.csv");
    while !rows.exists() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill starts").success());
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    assert!(!folder.path().join("out/pareto.csv").exists());

    assert!(calibrate(folder.path(), &[]).starts_with("exit 0"));
    assert_eq!(results(folder.path(), "whole"), results(folder.path(), "out"));
}

#[test]
fn a_limit_below_the_smallest_configuration_could_not_be_met() {
    let folder = folder();
    tiny::write(folder.path());
    tiny::write_job(folder.path(), "", ", max_bits: 1");
    insta::assert_snapshot!(failed(1, &calibrate(folder.path(), &[])), @"
    error: `max_bits` is 1 equivalent bits, but the smallest configuration takes 2

    hint: raise `search.max_bits`, or give `search_space.pairs` of fewer bits
    ");
}

#[test]
fn a_bias_that_the_model_lacks_is_found_before_any_work() {
    let folder = folder();
    tiny::write(folder.path());
    tiny::write_job(folder.path(), ", key_bias: subtract", "");
    insta::assert_snapshot!(failed(2, &calibrate(folder.path(), &[])), @"
    error: `key_bias: subtract` needs a bias on every layer's `k_proj` with no norm behind it, but layer 0 has none

    hint: set `key_bias: keep` in the scheme
    ");
    assert!(!folder.path().join("out/trace.safetensors").exists());
    tiny::write_job(folder.path(), "", "");
    let shown = calibrate(folder.path(), &[]);
    assert!(shown.starts_with("exit 0"), "a corrected job runs in the same folder: {shown}");
}

#[test]
fn a_file_changed_since_is_named_and_made_anew_once_it_is_gone() {
    let folder = folder();
    tiny::write(folder.path());
    assert!(calibrate(folder.path(), &[]).starts_with("exit 0"));
    let before = results(folder.path(), "out");
    for name in ["trace.safetensors", "sensitivity.csv", "space.yaml", "evaluations.csv", "pareto.csv"] {
        let path = folder.path().join("out").join(name);
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("damaged");
        let shown = failed(1, &calibrate(folder.path(), &[]));
        assert!(shown.starts_with(&format!("error: `out/{name}` is not as `kvtune ")), "{shown}");
        assert!(shown.contains(&format!("hint: remove `out/{name}`, and")), "{shown}");
        std::fs::remove_file(&path).expect("removed");
        let shown = calibrate(folder.path(), &[]);
        assert!(shown.starts_with("exit 0"), "{name}: {shown}");
        assert_eq!(results(folder.path(), "out"), before, "{name}");
    }
    std::fs::write(folder.path().join("out/run.yaml"), "{").expect("damaged");
    let shown = failed(1, &calibrate(folder.path(), &[]));
    assert!(shown.contains("hint: remove `out/run.yaml`"), "{shown}");
}

#[test]
fn another_job_in_the_same_folder_names_what_differs() {
    let folder = folder();
    tiny::write(folder.path());
    assert!(calibrate(folder.path(), &[]).starts_with("exit 0"));
    tiny::write_job(folder.path(), "", ", max_bits: 4");
    insta::assert_snapshot!(failed(1, &calibrate(folder.path(), &[])), @"
    error: `out` holds another run: `search.max_bits` is null there, 4.0 here

    hint: use another `--out`, or `--force` to redo what differs
    ");
    assert!(calibrate(folder.path(), &["--force"]).starts_with("exit 0"));
}

#[test]
fn a_place_that_is_a_file_is_no_folder() {
    let folder = folder();
    tiny::write(folder.path());
    std::fs::write(folder.path().join("file"), "").expect("written");
    insta::assert_snapshot!(failed(1, &calibrate(folder.path(), &["-o", "file"])), @"
    error: cannot write `file/job.yaml`: `file` is a file, not a folder

    hint: choose another place with `--out`
    ");
}

#[test]
fn damaged_models_are_named_with_file_and_key() {
    let folder = folder();
    tiny::write(folder.path());
    let model = folder.path().join("tiny");
    let weights = std::fs::read(model.join("model.safetensors")).expect("weights");
    let mut lying = weights.clone();
    lying[..8].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    let mut not_finite = weights.clone();
    let last = not_finite.len() - 4;
    not_finite[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let cases: [(&[u8], &str); 3] = [
        (&weights[..weights.len() - 9], "model.safetensors` of "),
        (&lying, "has header too large"),
        (&not_finite, "holds NaN at element "),
    ];
    for (bytes, expected) in cases {
        std::fs::write(model.join("model.safetensors"), bytes).expect("damaged");
        let shown = failed(1, &calibrate(folder.path(), &[]));
        assert!(
            shown.starts_with("error: `./tiny/model.safetensors`") && shown.contains(expected),
            "{shown}"
        );
    }
    std::fs::write(model.join("model.safetensors"), weights).expect("whole again");
    let mut config = tiny::config();
    config["rope_scaling"] = serde_json::json!({"rope_type": "wavy", "factor": 2.0});
    tiny::write_config(&model, &config);
    insta::assert_snapshot!(failed(1, &calibrate(folder.path(), &[])), @"error: `./tiny/config.json`: `rope_scaling.rope_type` is `wavy`, expected one of default, linear, llama3, yarn");
}

#[test]
fn numbers_out_of_range_are_typing_errors() {
    let folder = folder();
    tiny::write(folder.path());
    let shown = calibrate(folder.path(), &["-j", "100000000000"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("expected a whole number from 0 to 1024"),
        "{shown}"
    );
    std::fs::write(folder.path().join("text.txt"), "words ".repeat(50)).expect("written");
    for (option, value) in [("--window", "0"), ("--window", "1"), ("--windows", "0")] {
        let shown = outcome(
            kvtune(folder.path())
                .args(["eval", "-m", "./tiny", "text.txt", "--uniform", "KV4"])
                .args([option, value]),
        );
        assert!(shown.starts_with("exit 2"), "{option} {value}: {shown}");
    }
    let shown = outcome(kvtune(folder.path()).args(["calibrate", "job.yaml", "--device", "tpu"]));
    assert!(shown.starts_with("exit 2") && shown.contains("device `tpu` is not in this build"), "{shown}");
}

#[test]
fn an_empty_prompt_file_is_named() {
    let folder = folder();
    tiny::write(folder.path());
    std::fs::write(folder.path().join("empty.txt"), " \n").expect("written");
    let job = "{model: ./tiny, out: out, trace: {task: plain-text, path: empty.txt}}";
    std::fs::write(folder.path().join("job.yaml"), job).expect("written");
    insta::assert_snapshot!(failed(1, &calibrate(folder.path(), &[])), @"error: prompt file `empty.txt` is empty");
}
