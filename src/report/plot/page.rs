//! The figures of a report: each drawn for a column and for a phone.

use crate::precision::PrecisionMap;
use crate::report::rows::{ParetoRow, SensitivityRow};

use super::figure::{Figure, Size};
use super::progress::Progress;
use super::{Context, heatmap, inline, pareto, progress, strip};

/// One figure in two sizes, of which a page shows the one that fits.
#[derive(Clone, Debug, serde::Serialize)]
pub(in crate::report) struct Drawing {
    wide: String,
    narrow: String,
}

impl Drawing {
    fn new(label: &str, draw: impl Fn(Size) -> Figure) -> Self {
        Self {
            wide: inline::svg(&draw(Size::Wide), "wide", label),
            narrow: inline::svg(&draw(Size::Narrow), "narrow", label),
        }
    }
}

pub(in crate::report) fn pareto_drawing(rows: &[ParetoRow], context: &Context, label: &str) -> Drawing {
    Drawing::new(label, |size| pareto::on_page(rows, context, size))
}

pub(in crate::report) fn heatmap_drawing(rows: &[SensitivityRow], label: &str) -> Drawing {
    Drawing::new(label, |size| heatmap::on_page(rows, size))
}

pub(in crate::report) fn strip_drawing(map: &PrecisionMap, groups: &[String], label: &str) -> Drawing {
    Drawing::new(label, |size| strip::on_page(map, groups, size))
}

pub(in crate::report) fn progress_drawing(found: &Progress, label: &str) -> Drawing {
    Drawing::new(label, |size| progress::on_page(found, size))
}
