//! Why a layer is sensitive: what its heads attend to, which key channels stand out, what noise does to them.
//!
//! [`observe`] takes documents through the full-precision model once and keeps of every head its [`Pattern`] (and a
//! block-averaged [`AttentionMap`]), of every key channel its [`ChannelStats`], and of queries sampled from each head
//! how far noise on the keys moves them ([`Tally`](lemma::Tally), KVTuner's Lemma 1). [`knock_outs`] takes a map one
//! step down, group by group. Errors of coding are [`sensitivity`](crate::sensitivity)'s affair, losses of maps
//! [`score`](crate::score)'s; this module knows no file.
//!
//! Source: KVTuner (Li et al., ICML 2025, arXiv:2502.04420), its sections on attention patterns and Lemma 1.

mod channels;
mod head_id;
mod knockout;
pub mod lemma;
mod map;
mod noise;
mod observe;
mod pattern;

pub use channels::{ChannelStats, ChannelSums, OUTLIER, median, outliers};
pub use head_id::{HeadId, HeadIdError};
pub use knockout::{KnockOut, Side, knock_outs};
pub use map::AttentionMap;
pub use observe::{LayerObservation, Observation, Setting, observe};
pub use pattern::{FIRST, HeadClass, Pattern, PatternSums, RECENT, STREAMING};
