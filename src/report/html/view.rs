//! What of another command's table a reader sees first: some columns, the rows that matter, words for its name.

use std::cmp::Ordering;

/// Rows of a table that are shown where no view says fewer; the file has them all.
const MOST_ROWS: usize = 60;

/// One kind of table, known by its file's name.
#[derive(Clone, Copy)]
pub(super) struct View {
    file: &'static str,
    /// What the table is, in words.
    title: &'static str,
    columns: &'static [&'static str],
    /// The column whose largest values come first.
    largest: Option<&'static str>,
    /// Rows with this value in this column are for figures.
    without: Option<(&'static str, &'static str)>,
    most: usize,
}

const VIEWS: [View; 5] = [
    View {
        file: "heads.csv",
        title: "Heads that lose most",
        columns: &[
            "layer",
            "head",
            "class",
            "concentration",
            "first_mass",
            "recent_mass",
            "pair",
            "e_a",
            "e_o_l1",
        ],
        largest: Some("e_o_l1"),
        without: None,
        most: 10,
    },
    View {
        file: "channels.csv",
        title: "Key channels of the widest spread",
        columns: &["layer", "kv_head", "channel", "max", "spread", "outlier", "bias_share"],
        largest: Some("spread"),
        without: None,
        most: 10,
    },
    View {
        file: "lemma.csv",
        title: "Lemma 1: how far queries move, by the largest attention weight",
        columns: &[
            "source",
            "noise_bits",
            "top_from",
            "top_to",
            "queries",
            "attention_shift",
            "bound",
            "output_change",
        ],
        largest: None,
        without: None,
        most: MOST_ROWS,
    },
    View {
        file: "knockout.csv",
        title: "The chosen map with one side of a group a step lower",
        columns: &[
            "group",
            "layers",
            "side",
            "from",
            "to",
            "loss_change",
            "loss_low",
            "loss_high",
            "kl_change",
            "e_o",
            "rank_loss",
            "rank_e_o",
        ],
        largest: None,
        without: None,
        most: MOST_ROWS,
    },
    View {
        file: "dgap.csv",
        title: "What heads leave of the drift",
        columns: &[
            "setting",
            "trained_on",
            "head",
            "gate",
            "text",
            "trigger_rate",
            "js",
            "recovery",
            "flips",
            "perplexity",
            "harm",
        ],
        largest: None,
        without: Some(("gate", "curve")),
        most: MOST_ROWS,
    },
];

/// A table cut down, and how many rows that leaves out.
pub(super) struct Shown {
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) left_out: usize,
}

/// The view of a file; of one that is not known, its first rows under its name.
pub(super) fn shown(file: &str, columns: Vec<String>, rows: Vec<Vec<String>>) -> Shown {
    let all = rows.len();
    let (title, columns, rows) = match VIEWS.iter().find(|view| view.file == file) {
        Some(view) => {
            let (columns, rows) = view.of(columns, rows);
            (view.title.to_owned(), columns, rows)
        }
        None => (file.to_owned(), columns, rows.into_iter().take(MOST_ROWS).collect()),
    };
    Shown { title, columns, left_out: all - rows.len(), rows }
}

impl View {
    /// Columns that the file lacks are left out, and a row that lacks the one that orders comes last.
    fn of(&self, columns: Vec<String>, mut rows: Vec<Vec<String>>) -> (Vec<String>, Vec<Vec<String>>) {
        let place = |name: &str| columns.iter().position(|column| column == name);
        if let Some((place, value)) = self.without.and_then(|(column, value)| Some((place(column)?, value))) {
            rows.retain(|row| row.get(place).is_none_or(|cell| cell != value));
        }
        if let Some(place) = self.largest.and_then(place) {
            rows.sort_by(|a, b| descending(number(a, place), number(b, place)));
        }
        rows.truncate(self.most);
        let kept: Vec<usize> = self.columns.iter().filter_map(|name| place(name)).collect();
        let pick = |row: &[String]| kept.iter().map(|&i| row.get(i).cloned().unwrap_or_default()).collect();
        (pick(&columns), rows.iter().map(|row| pick(row)).collect())
    }
}

fn number(row: &[String], place: usize) -> Option<f64> {
    row.get(place)?.parse().ok().filter(|number: &f64| !number.is_nan())
}

fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    let rank = |x: Option<f64>| x.unwrap_or(f64::NEG_INFINITY);
    rank(b).total_cmp(&rank(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
        (lines.next().unwrap_or_default(), lines.collect())
    }

    #[test]
    fn the_widest_channels_come_first() {
        let mut text = String::from("layer,kv_head,channel,max,spread,rms,outlier\n");
        (0..12).for_each(|i| text += &format!("0,0,{i},1.0,{}.5,1.0,false\n", (i * 7) % 12));
        let (columns, rows) = table(&text);
        let shown = shown("channels.csv", columns, rows);
        assert_eq!(shown.columns, ["layer", "kv_head", "channel", "max", "spread", "outlier"]);
        assert_eq!((shown.rows.len(), shown.left_out), (10, 2));
        assert_eq!(shown.rows[0][4], "11.5");
    }

    #[test]
    fn rows_for_figures_and_columns_that_are_missing_are_left_out() {
        let (columns, rows) = table("setting,head,gate,js\nKV1,c3,always,0.1\nKV1,c3,curve,0.2\nKV1");
        let shown = shown("dgap.csv", columns, rows);
        assert_eq!(shown.rows, [["KV1", "c3", "always", "0.1"], ["KV1", "", "", ""]]);
        assert_eq!(shown.left_out, 1);
    }

    #[test]
    fn a_table_that_nobody_knows_is_shown_from_its_start() {
        let (columns, rows) = table(&("cell,ms\n".to_owned() + &"1x512,0.1\n".repeat(61)));
        let shown = shown("bench.csv", columns, rows);
        assert_eq!((shown.title.as_str(), shown.rows.len(), shown.left_out), ("bench.csv", 60, 1));
    }
}
