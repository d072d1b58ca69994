use super::{data, folder, kvtune, outcome};

#[test]
fn the_front_is_drawn_beside_its_rows() {
    let folder = folder();
    std::fs::copy(data("pareto.csv"), folder.path().join("pareto.csv")).expect("copied");
    let shown = outcome(kvtune(folder.path()).args(["plot", "pareto.csv"]));
    assert_eq!(shown, "exit 0\n--- stdout\npareto.svg\n--- stderr\n");
    let svg = std::fs::read_to_string(folder.path().join("pareto.svg")).expect("a figure");
    for text in ["KV8", "K4V2", "chosen", "equivalent bits"] {
        assert!(svg.contains(text), "{text} is missing");
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let folder = folder();
    for format in ["svg", "png"] {
        let draw = |name: &str| {
            let out = folder.path().join(name).with_extension(format);
            let shown =
                outcome(kvtune(folder.path()).arg("plot").arg(data("sensitivity.csv")).arg("-o").arg(&out));
            assert!(shown.starts_with("exit 0"), "{shown}");
            std::fs::read(out).expect("a figure")
        };
        assert_eq!(draw("a"), draw("b"));
    }
}

#[test]
fn another_format_is_a_usage_error() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).arg("plot").arg(data("pareto.csv")).args(["-o", "front.pdf"]));
    insta::assert_snapshot!(shown, @"
    exit 2
    --- stdout
    --- stderr
    error: cannot tell the format of `front.pdf`, expected a name that ends in `.svg` or `.png`
    ");
}

#[test]
fn a_damaged_cell_is_named_and_no_figure_is_left() {
    let folder = folder();
    std::fs::write(folder.path().join("p.csv"), "map,role,equivalent_bits,search_loss\n0 KV8,front,much,1\n")
        .expect("written");
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["plot", "p.csv"])), @"
    exit 1
    --- stdout
    --- stderr
    error: `p.csv`, line 2, column `equivalent_bits`: invalid float literal
    ");
    assert!(!folder.path().join("p.svg").exists());
}

#[test]
fn an_unwritable_place_is_named_with_a_way_out() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "").expect("written");
    let shown =
        outcome(kvtune(folder.path()).arg("plot").arg(data("pareto.csv")).args(["-o", "file/front.svg"]));
    assert!(
        shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: cannot write `file/front.svg`: "),
        "{shown}"
    );
}
