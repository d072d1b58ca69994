//! The report as a browser shows it; needs `chromium`, and says so where there is none.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{folder, kvtune, outcome};

/// Looks at every figure of the page that it is added to.
const PROBE: &str = include_str!("probe.js");

fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths).map(|path| path.join("chromium")).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: no chromium");
    }
    found
}

/// The committed result's report, with the probe at its end.
fn page(folder: &Path) -> PathBuf {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/smollm2-135m/kivi");
    let shown = outcome(kvtune(folder).arg("report").arg(results).args(["-o", "report.html"]));
    assert!(shown.starts_with("exit 0\n--- stdout\nreport.html\n"), "{shown}");
    let text = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    let probed = text.replace("</body>", &format!("<script>{PROBE}</script></body>"));
    let path = folder.join("probed.html");
    std::fs::write(&path, probed).expect("written");
    path
}

/// What the probe saw at a width, and what the browser's console said.
///
/// A window is never narrower than 500 pixels, so the page stands in a frame of its width.
fn look(browser: &Path, page: &Path, width: u32, folder: &Path) -> (Value, String) {
    let frame = folder.join("frame.html");
    let text = format!(
        "<title>nothing</title><script>onmessage = (event) => (document.title = event.data)</script>\
         <iframe src=\"{}\" style=\"border:0;width:{width}px;height:9000px\"></iframe>",
        page.file_name().expect("a name").display()
    );
    std::fs::write(&frame, text).expect("written");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .args(["--hide-scrollbars", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--window-size=1600,1000")
        .arg(format!("file://{}", frame.display()))
        .output()
        .expect("it starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title =
        dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).expect("a title").0;
    let title = title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_str(&title).unwrap_or_else(|_| panic!("the probe did not run: {title}")), console)
}

#[test]
fn every_figure_is_seen_whole_on_a_phone_and_on_a_wide_screen() {
    let Some(browser) = browser() else { return };
    let folder = folder();
    let page = page(folder.path());
    for width in [400, 1400] {
        let (seen, console) = look(&browser, &page, width, folder.path());
        assert!(!console.contains("CONSOLE"), "{console}");
        assert_eq!(seen["width"], width, "{seen}");
        assert!(
            seen["needed"].as_u64() <= Some(u64::from(width)),
            "the page is wider than the screen: {seen}"
        );
        let figures = seen["figures"].as_array().expect("figures");
        assert_eq!(figures.len(), 4, "{seen}");
        for figure in figures {
            assert_eq!(figure["shown"], 1, "one of two sizes: {figure}");
            let side = |name: &str| figure["frame"][name].as_f64().expect("a number");
            assert!(side("left") >= 0.0 && side("right") <= f64::from(width), "{figure}");
            assert!(side("right") - side("left") > 250.0 && side("bottom") - side("top") > 60.0, "{figure}");
            assert_eq!(figure["cut"], Value::Array(Vec::new()), "at {width}");
            assert_eq!(figure["overlapping"], Value::Array(Vec::new()), "at {width}");
        }
    }
}

#[test]
fn the_probe_sees_text_that_is_cut_off() {
    let Some(browser) = browser() else { return };
    let folder = folder();
    let page = folder.path().join("bad.html");
    let svg = "<svg width=\"300\" height=\"50\" style=\"display:block\"><text x=\"250\" y=\"20\">too far right</text>\
               <text x=\"10\" y=\"20\">one</text><text x=\"12\" y=\"20\">two</text></svg>";
    std::fs::write(
        &page,
        format!("<title>x</title><figure>{svg}</figure><script>{PROBE};console.error('x')</script>"),
    )
    .expect("written");
    let (seen, console) = look(&browser, &page, 600, folder.path());
    assert_eq!(seen["figures"][0]["cut"][0], "too far right");
    assert_eq!(seen["figures"][0]["overlapping"][0], "one | two");
    assert!(console.contains("CONSOLE"), "{console}");
}
