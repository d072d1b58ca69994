use std::path::Path;

use serde_json::Value;

use super::*;
use crate::report::{
    AnalysisFile, Continued, EvaluationRow, FlipExample, FlipOrigin, ModelRecord, ParetoRow, PrecisionFile,
    RunRecord, SensitivityRow, parse_map, read_csv, write_csv,
};

/// A finished job, as it is committed: without its trace.
fn finished() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/smollm2-135m/kivi");
    for entry in std::fs::read_dir(from).expect("the committed result") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
    }
    folder
}

fn page(folder: &Path) -> String {
    let written = write(folder, None).expect("a page");
    std::fs::read_to_string(written.path).expect("read")
}

/// The data block, read as a browser would.
fn data(page: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let rest = page.split_once(start).expect("a data block").1;
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// The rows of a CSV as JSON, read as the data block is.
fn rows<R: serde::Serialize + serde::de::DeserializeOwned>(path: &Path) -> Value {
    let rows: Vec<R> = read_csv(path).expect("rows");
    serde_json::from_str(&serde_json::to_string(&rows).expect("JSON")).expect("JSON")
}

#[test]
fn the_data_block_holds_the_rows_of_the_csvs() {
    let folder = finished();
    let data = data(&page(folder.path()));
    let csv = |name: &str| folder.path().join(name);
    assert_eq!(data["pareto"], rows::<ParetoRow>(&csv("pareto.csv")));
    assert_eq!(data["sensitivity"], rows::<SensitivityRow>(&csv("sensitivity.csv")));
    assert_eq!(data["evaluations"], rows::<EvaluationRow>(&csv("evaluations.csv")));
    assert!(data["pareto"].as_array().expect("rows").len() > 20);
    let map = PrecisionFile::read(&csv("precision.yaml")).expect("a map").map;
    assert_eq!(data["precision"], map.to_string());
}

#[test]
fn the_answer_comes_first_and_agrees_with_the_front() {
    let folder = finished();
    let page = page(folder.path());
    for text in [
        "<h1>smollm2-135m: 3.60 bits per cached number instead of 16</h1>",
        "memory holds 4.60 bits a number at 4,096 tokens, 3.5 times less than f16",
        "at 6.5\u{a0}% of the positions (95 % interval 5.2\u{a0}% to 7.8\u{a0}%)",
        "<td>KV4</td>",
        "131,072",
        "Exploratory: 8 documents",
        "`trace.safetensors` is missing",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    assert_eq!(
        page.matches("role=\"img\" aria-label=\"").count(),
        8,
        "four figures in two sizes, each with words"
    );
}

#[test]
fn a_page_asks_for_nothing_from_outside_and_is_the_same_each_time() {
    let folder = finished();
    let first = page(folder.path());
    for outside in ["http://", "https://", "src=\"/", "@import", "url("] {
        assert!(!first.contains(outside), "{outside}");
    }
    assert_eq!(first, page(folder.path()));
}

#[test]
fn a_run_that_stopped_shows_what_it_has_and_says_what_is_missing() {
    let folder = finished();
    for name in
        ["pareto.csv", "precision.yaml", "precision-3.0.yaml", "precision-4.0.yaml", "evaluations.csv"]
    {
        std::fs::remove_file(folder.path().join(name)).expect("removed");
    }
    std::fs::write(folder.path().join("space.yaml"), "format: 1\n").expect("damaged");
    let written = write(folder.path(), None).expect("a page");
    let page = std::fs::read_to_string(&written.path).expect("read");
    assert!(
        page.contains("<h1>smollm2-135m: no map yet</h1>") && page.contains("How sensitive each layer is")
    );
    assert!(!page.contains("id=\"front\"") && !page.contains("id=\"search\""));
    assert!(written.gaps.contains(&String::from("`pareto.csv` is missing")), "{:?}", written.gaps);
    assert!(
        written.gaps.iter().any(|gap| gap.starts_with("`space.yaml` cannot be used: ")),
        "{:?}",
        written.gaps
    );
}

#[test]
fn files_of_two_models_are_refused_with_both_named() {
    let folder = finished();
    let path = folder.path().join("run.yaml");
    let run = RunRecord::read(&path).expect("a record");
    let other = ModelRecord { id: String::from("org/other"), sha256: "ab".repeat(32), ..run.model.clone() };
    RunRecord { model: other, ..run.clone() }.write(&path).expect("written");
    let error = write(folder.path(), None).expect_err("two models");
    assert!(error.to_string().ends_with(
        "mixes the files of two models: `run.yaml` is of `org/other` (sha256 abababababab…), but `space.yaml` is \
         of the model of sha256 b179c9523d0e…"
    ), "{error}");
    assert!(!folder.path().join(FILE).exists());

    run.write(&path).expect("written");
    let map = parse_map("0-23 KV4").expect("a map");
    PrecisionFile { map, provenance: None }.write(&folder.path().join("precision.yaml")).expect("written");
    let error = write(folder.path(), None).expect_err("24 layers are not 30").to_string();
    assert!(
        error.ends_with(
            "`run.yaml` is of a model of 30 layers, but `precision.yaml` is of a model of 24 layers"
        ),
        "{error}"
    );
}

#[test]
fn a_folder_without_results_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = write(folder.path(), None).expect_err("nothing there");
    assert!(
        error.to_string().contains("holds none of a job's files, expected some of job.yaml, run.yaml"),
        "{error}"
    );
    assert!(
        write(&folder.path().join("nowhere"), None)
            .expect_err("no folder")
            .to_string()
            .starts_with("cannot read `")
    );
}

#[test]
fn what_files_say_is_text_and_not_markup() {
    let folder = finished();
    let path = folder.path().join("run.yaml");
    let run = RunRecord::read(&path).expect("a record");
    let model = ModelRecord { id: String::from("</script><b>x"), ..run.model.clone() };
    RunRecord { model, ..run }.write(&path).expect("written");
    let page = page(folder.path());
    assert!(!page.contains("<b>x"), "markup of the model's name");
    assert_eq!(data(&page)["model"]["id"], "</script><b>x");
}

#[test]
fn a_row_of_no_finite_loss_is_left_out_of_the_figure() {
    let folder = finished();
    let csv = folder.path().join("pareto.csv");
    let mut rows: Vec<ParetoRow> = read_csv(&csv).expect("rows");
    rows[0].search_loss = f64::NAN;
    write_csv(&csv, &rows).expect("written");
    assert!(!page(folder.path()).contains("id=\"front\""));
}

/// Leaves an `analysis.yaml` of the folder's model, with an example of its map or none.
fn analyzed(folder: &Path, example: Option<FlipExample>) {
    let run = RunRecord::read(&folder.join("run.yaml")).expect("a record");
    let moved = "{queries: 1, beyond_bound: 0}";
    let text = format!(
        "{{format: 1, trace: t, seed: 0, version: v, documents: 2, errors_from_file: true, correlations: [], drawn: [], \
         model: {{id: m, sha256: {}, layers: 30}}, heads: {{streaming: 1, retrieval: 1, queries: 1}}, \
         channels: {{channels: 1, outliers: 0, largest_ratio: 1.0}}, lemma: {{synthetic: {moved}, model: []}}}}",
        run.model.sha256
    );
    let path = folder.join("analysis.yaml");
    std::fs::write(&path, text).expect("written");
    let file = AnalysisFile::read(&path).expect("an analysis without example");
    assert_eq!(file.example, None);
    AnalysisFile { example, ..file }.write(&path).expect("written");
}

fn example(folder: &Path) -> FlipExample {
    let continued = |token: &str, text: &str| Continued { token: token.into(), text: text.into() };
    FlipExample {
        origin: FlipOrigin::Chosen,
        map: PrecisionFile::read(&folder.join("precision.yaml")).expect("a map").map,
        equivalent_bits: 3.6,
        unchanged: Vec::new(),
        documents: 4,
        changed: 3,
        document: "search-001".into(),
        position: 70,
        agreed: 12,
        before: "so a < b\nand".into(),
        full: continued(" then", " then</pre><b>bold"),
        quantized: continued("<end>", ""),
        logit_gap: 0.25,
    }
}

#[test]
fn a_changed_token_is_shown_with_both_continuations_as_text() {
    let folder = finished();
    let found = example(folder.path());
    analyzed(folder.path(), Some(found.clone()));
    let shown = page(folder.path());
    for text in [
        "the chosen map (3.60 bits) changes a token within the recorded length in 3 of 4 documents",
        "search-001: the sides part at token 13 of the continuation",
        "is 0.250 above that of the other",
        "<pre class=\"text\">…so a &lt; b\nand</pre>",
        "<mark> then</mark>&lt;&#x2f;pre&gt;&lt;b&gt;bold</pre>",
        "<mark>&lt;end&gt;</mark></pre>",
    ] {
        assert!(shown.contains(text), "{text} is missing");
    }
    let unchanged = vec![String::from("the chosen map (3.60 bits)")];
    analyzed(folder.path(), Some(FlipExample { origin: FlipOrigin::Uniform, unchanged, ..found }));
    let said = "Writing freely, the chosen map (3.60 bits) changed no token of any document.";
    assert!(page(folder.path()).contains(said));
}

#[test]
fn a_page_does_without_an_example_of_nothing_of_another_map_or_of_another_model() {
    let folder = finished();
    analyzed(folder.path(), None);
    assert!(!page(folder.path()).contains("id=\"example\""));
    let map = parse_map("0-29 KV1").expect("a map");
    analyzed(folder.path(), Some(FlipExample { map, ..example(folder.path()) }));
    assert!(page(folder.path()).contains("<h3>A map of 3.60 bits</h3>"), "no longer the chosen one");
    let path = folder.path().join("analysis.yaml");
    let file = AnalysisFile::read(&path).expect("an analysis");
    let other = ModelRecord { sha256: "ab".repeat(32), ..file.model.clone() };
    AnalysisFile { model: other, ..file }.write(&path).expect("written");
    assert!(!page(folder.path()).contains("id=\"example\""));
    std::fs::write(&path, "format: 1\n").expect("damaged");
    let written = write(folder.path(), None).expect("a page");
    assert!(written.gaps.iter().any(|gap| gap.starts_with("`analysis.yaml` cannot be used: ")));
}
