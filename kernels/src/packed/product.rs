//! The inner loop of everything: rows of codes, each times a number, summed in lanes.
//!
//! A code is not shifted down. It stays where it is in its word, is converted as the integer `code · 2^shift`
//! (exact: at most eight bits are set) and meets a multiplier that carries `2^−shift`. That takes a mask, a
//! conversion and one multiply–add a query head for sixteen codes. Only the topmost slot is shifted, because
//! its integer would be negative.

use std::ops::Range;

use super::Unit;
use super::layout::{Plane, mask};
use crate::isa::Isa;

/// Sums of `H` query heads over `C` strips side by side.
pub(super) type Sums<I, const H: usize, const C: usize> = [[<I as Isa>::F; C]; H];

/// What a row's multiplier is times: 2^low for the plane, and 2^−shift where codes stay in place.
#[inline(always)]
pub(super) fn row_scale(plane: Plane, row: usize) -> f32 {
    let slot = row % plane.slots();
    let shift =
        if row < plane.full_rows() && slot + 1 < plane.slots() { plane.width * slot as u32 } else { 0 };
    power_of_two(plane.low as i32 - shift as i32)
}

/// 2ⁿ for −126 ≤ n ≤ 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// One plane of a tile, and which of its columns are wanted.
#[derive(Clone, Copy)]
pub(super) struct Strips<'a> {
    pub(super) plane: Plane,
    /// The plane's units.
    pub(super) units: &'a [Unit],
    /// The first of the columns.
    pub(super) first: usize,
}

/// `sums[h][c] += Σ multipliers[h][row] · code[row][first + c]` over `rows`.
///
/// The multipliers are those of the whole tile, already times [`row_scale`].
#[inline(always)]
pub(super) fn accumulate<I: Isa, const H: usize, const C: usize>(
    isa: I,
    strips: Strips<'_>,
    multipliers: [&[f32]; H],
    rows: Range<usize>,
    sums: &mut Sums<I, H, C>,
) {
    isa.outlined(
        #[inline(always)]
        || {
            let Strips { plane, units, first } = strips;
            let (slots, full) = (plane.slots(), plane.full_rows());
            let mut row = rows.start;
            while row < rows.end {
                if !row.is_multiple_of(slots) || row + slots > rows.end.min(full) {
                    single_row(isa, strips, multipliers, row, sums);
                    row += 1;
                    continue;
                }
                let units = &units[row / slots * plane.columns + first..][..C];
                let mut mine = multipliers;
                for mine in &mut mine {
                    *mine = &mine[row..row + slots];
                }
                match plane.width {
                    1 => whole_units::<I, 1, 31, H, C>(isa, units, mine, sums),
                    2 => whole_units::<I, 2, 30, H, C>(isa, units, mine, sums),
                    4 => whole_units::<I, 4, 28, H, C>(isa, units, mine, sums),
                    _ => whole_units::<I, 8, 24, H, C>(isa, units, mine, sums),
                }
                row += slots;
            }
        },
    );
}

/// One row of units: as many rows of codes as a unit has slots. `TOP` is where the last slot begins.
#[inline(always)]
fn whole_units<I: Isa, const W: usize, const TOP: u32, const H: usize, const C: usize>(
    isa: I,
    units: &[Unit],
    multipliers: [&[f32]; H],
    sums: &mut Sums<I, H, C>,
) {
    let slots = 32 / W;
    let mut multipliers = multipliers;
    for multipliers in &mut multipliers {
        *multipliers = &multipliers[..slots];
    }
    for slot in 0..slots {
        let mut code = [isa.splat(0.0); C];
        for c in 0..C {
            let words = isa.load_words(&units[c]);
            code[c] = match slot + 1 < slots {
                true => isa.masked(words, mask(W as u32) << (W * slot)),
                false => isa.shifted::<TOP>(words),
            };
        }
        for h in 0..H {
            let multiplier = isa.splat(multipliers[h][slot]);
            for c in 0..C {
                sums[h][c] = isa.mul_add(code[c], multiplier, sums[h][c]);
            }
        }
    }
}

/// A row at the edge of a group, or one that fills no unit.
#[inline(always)]
fn single_row<I: Isa, const H: usize, const C: usize>(
    isa: I,
    strips: Strips<'_>,
    multipliers: [&[f32]; H],
    row: usize,
    sums: &mut Sums<I, H, C>,
) {
    let Strips { plane, units, first } = strips;
    // The multiplier expects the code where it stands.
    let restore = power_of_two(plane.low as i32) / row_scale(plane, row);
    for c in 0..C {
        let place = plane.place(row, first + c);
        let words = units[place.unit].map(|word| word >> place.shift);
        let code = isa.masked(isa.load_words(&words), mask(plane.width));
        for h in 0..H {
            sums[h][c] = isa.mul_add(code, isa.splat(multipliers[h][row] * restore), sums[h][c]);
        }
    }
}
