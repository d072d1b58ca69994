use super::{folder, kvtune, outcome};

#[test]
fn the_program_alone_prints_its_help() {
    let folder = folder();
    let shown = outcome(&mut kvtune(folder.path()));
    assert!(shown.starts_with("exit 0\n--- stdout\nFinds, offline and once per model"), "{shown}");
    assert!(shown.ends_with("--- stderr\n"), "{shown}");
}

#[test]
fn long_help_has_examples_and_short_help_has_not() {
    let folder = folder();
    let (long, short) =
        (outcome(kvtune(folder.path()).arg("--help")), outcome(kvtune(folder.path()).arg("-h")));
    assert!(long.contains("Examples:\n  kvtune calibrate "), "{long}");
    assert!(short.starts_with("exit 0") && !short.contains("Examples:"), "{short}");
    for verb in [
        "calibrate",
        "trace",
        "sensitivity",
        "space",
        "search",
        "select",
        "analyze",
        "plot",
        "model",
        "generate",
        "eval",
        "report",
        "export",
        "import",
        "check",
    ] {
        assert!(short.contains(&format!("\n  {verb} ")), "{verb} is missing from\n{short}");
        let own = outcome(kvtune(folder.path()).args([verb, "--help"]));
        assert!(own.starts_with("exit 0") && own.contains("Example"), "{own}");
    }
}

#[test]
fn the_version_is_on_standard_output() {
    let folder = folder();
    let expected = format!("exit 0\n--- stdout\nkvtune {}\n--- stderr\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(outcome(kvtune(folder.path()).arg("--version")), expected);
}

#[test]
fn a_misspelt_verb_is_answered_with_the_nearest() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).arg("calibrat"));
    assert!(shown.starts_with("exit 2\n--- stdout\n--- stderr\n"), "{shown}");
    assert!(shown.contains("'calibrate'"), "{shown}");
}

#[test]
fn quiet_and_verbose_exclude_each_other() {
    let folder = folder();
    assert!(outcome(kvtune(folder.path()).args(["-q", "-v", "model", "list"])).starts_with("exit 2"));
}

#[test]
fn completions_know_the_verbs() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let shown = outcome(kvtune(folder.path()).args(["completions", shell]));
        assert!(shown.starts_with("exit 0") && shown.contains("calibrate"), "{shown}");
    }
}
