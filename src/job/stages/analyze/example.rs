//! One token that a map's cache changes in free generation, and what follows on either side.

use std::ops::ControlFlow;

use super::inputs::Inputs;
use crate::cache::{SimulatedCache, Simulation, Units};
use crate::job::stages::StageError;
use crate::job::stages::session::Session;
use crate::model::generate::{Batch, LANES, Next, continue_each, greedy};
use crate::model::restore::AsIs;
use crate::model::{Decoder, DecoderBackend, ModelError, Sampling, Tokenizer, to_host};
use crate::precision::{PrecisionMap, equivalent_bits};
use crate::report::{Continued, FlipExample, FlipOrigin, ParetoRow, Role, flip_name};
use crate::trace::Document;

/// Tokens that either side goes on for behind the changed one.
pub(super) const AFTER: usize = 80;
/// Characters shown of what both sides have in common.
const BEFORE_SHOWN: usize = 60;
/// Characters shown of either side from the changed token on.
const AFTER_SHOWN: usize = 200;

/// What was looked for.
pub(super) struct Parting {
    pub(super) example: Option<FlipExample>,
    /// Maps that changed nothing, in words.
    pub(super) unchanged: Vec<String>,
}

/// Lets maps continue the prompts of `documents` until one of them changes a token: the chosen map, those of the front
/// with fewer bits one by one, then the job's pair of fewest bits in every layer.
pub(super) fn find<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    simulation: &Simulation,
    inputs: &Inputs,
    documents: &[&Document],
) -> Result<Parting, StageError> {
    let tokenizer = session.tokenizer()?;
    let search = Search { session, decoder, simulation, tokenizer: &tokenizer, documents };
    let mut unchanged = Vec::new();
    for candidate in candidates(session, inputs) {
        match search.example(&candidate, &unchanged)? {
            Some(example) => return Ok(Parting { example: Some(example), unchanged }),
            None => unchanged.push(flip_name(candidate.origin, candidate.equivalent_bits)),
        }
    }
    Ok(Parting { example: None, unchanged })
}

/// A map that may change a token.
struct Candidate {
    origin: FlipOrigin,
    map: PrecisionMap,
    equivalent_bits: f64,
}

/// Maps in the order in which they are tried, none of them twice.
fn candidates(session: &Session<'_>, inputs: &Inputs) -> Vec<Candidate> {
    let pairs = session.job.search_space.pairs.expand();
    let fewest = pairs.into_iter().min_by(|a, b| a.mean_bits().total_cmp(&b.mean_bits()));
    let uniform = fewest.map(|pair| PrecisionMap::uniform(session.n_layers(), pair));
    let maps = in_order(inputs.map.as_ref(), &inputs.front, uniform);
    let candidate = |(origin, map)| {
        let equivalent_bits = equivalent_bits(&map, &session.widths()).get();
        Candidate { origin, map, equivalent_bits }
    };
    maps.into_iter().map(candidate).collect()
}

fn in_order(
    chosen: Option<&PrecisionMap>,
    front: &[ParetoRow],
    uniform: Option<PrecisionMap>,
) -> Vec<(FlipOrigin, PrecisionMap)> {
    let mean = |map: &PrecisionMap| map.pairs().iter().map(|pair| pair.mean_bits()).sum::<f64>();
    let mut below: Vec<&PrecisionMap> = front
        .iter()
        .filter(|row| row.role == Role::Front)
        .map(|row| &row.map)
        .filter(|map| chosen.is_some_and(|chosen| mean(map) < mean(chosen)))
        .collect();
    below.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let mut maps: Vec<(FlipOrigin, PrecisionMap)> = Vec::new();
    let chosen = chosen.map(|map| (FlipOrigin::Chosen, map.clone()));
    let below = below.into_iter().map(|map| (FlipOrigin::Front, map.clone()));
    let uniform = uniform.map(|map| (FlipOrigin::Uniform, map));
    for (origin, map) in chosen.into_iter().chain(below).chain(uniform) {
        if maps.iter().all(|(_, known)| *known != map) {
            maps.push((origin, map));
        }
    }
    maps
}

struct Search<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    decoder: &'a Decoder<B>,
    simulation: &'a Simulation,
    tokenizer: &'a Tokenizer,
    documents: &'a [&'a Document],
}

impl<B: DecoderBackend> Search<'_, B> {
    /// The first document that the map changes; nothing where it changes none.
    fn example(&self, tried: &Candidate, unchanged: &[String]) -> Result<Option<FlipExample>, StageError> {
        let changed = self.changed(&tried.map)?;
        for &(document, at) in &changed {
            let document = self.documents[document];
            let Some(sides) = self.sides(document, at, &tried.map)? else { continue };
            let parted = self.tokens(document, &sides.full[..sides.at]);
            return Ok(Some(FlipExample {
                origin: tried.origin,
                map: tried.map.clone(),
                equivalent_bits: tried.equivalent_bits,
                unchanged: unchanged.to_vec(),
                documents: self.documents.len(),
                changed: changed.len(),
                document: document.id.clone(),
                position: document.prompt_len + sides.at,
                agreed: sides.at,
                before: end_of(&plain(&self.tokenizer.decode(&parted)?), BEFORE_SHOWN).to_owned(),
                full: self.continued(&parted, &sides.full[sides.at..])?,
                quantized: self.continued(&parted, &sides.quantized[sides.at..])?,
                logit_gap: self.gap(&parted, sides.full[sides.at], sides.quantized[sides.at])?,
            }));
        }
        Ok(None)
    }

    /// Documents whose recorded continuation the map leaves, and after how many tokens, in their order.
    fn changed(&self, map: &PrecisionMap) -> Result<Vec<(usize, usize)>, StageError> {
        let observer = self.session.observer();
        observer.begin("free-running", self.documents.len() as u64, "documents");
        let prompts: Vec<&[u32]> =
            self.documents.iter().map(|document| &document.tokens[..document.prompt_len]).collect();
        let caches = |prompt: usize| self.caches(self.documents[prompt], map);
        let max_new = self.documents.iter().map(|document| document.positions()).max().unwrap_or(0);
        let threads = self.session.context.threads;
        let batch = Batch { max_new, lanes: LANES, threads, sampling: Sampling::GREEDY };
        let mut written = vec![0; self.documents.len()];
        let mut changed = Vec::new();
        continue_each(self.decoder, caches, &prompts, &batch, &AsIs, |chosen| {
            if observer.interrupted() {
                return Next::Stop;
            }
            let (document, at) = (self.documents[chosen.prompt], written[chosen.prompt]);
            written[chosen.prompt] += 1;
            let differs = document.tokens[document.prompt_len + at] != chosen.token;
            if differs {
                changed.push((chosen.prompt, at));
            }
            if differs || at + 1 == document.positions() {
                observer.advance(1);
                return Next::Leave;
            }
            Next::GoOn
        })?;
        if observer.interrupted() {
            return Err(StageError::Interrupted);
        }
        changed.sort_unstable();
        observer.end(&format!("{map}: {} of {} documents change", changed.len(), self.documents.len()));
        Ok(changed)
    }

    fn caches(&self, document: &Document, map: &PrecisionMap) -> Result<Vec<SimulatedCache>, ModelError> {
        let units = Units::prompt(document.prompt_len, self.simulation.scheme().prefill);
        Ok(self.simulation.caches(map, 0, &units)?)
    }

    /// Both continuations, a little beyond where they part; nothing where this build's full precision does not repeat
    /// the record and goes with the map instead.
    fn sides(&self, document: &Document, at: usize, map: &PrecisionMap) -> Result<Option<Sides>, StageError> {
        let prompt = &document.tokens[..document.prompt_len];
        let room = self.decoder.config().max_position_embeddings.saturating_sub(prompt.len());
        let most = (at + AFTER).min(room).max(at + 1);
        let observer = self.session.observer();
        let each =
            |_| if observer.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let full = greedy(self.decoder, &mut self.decoder.full_caches(), prompt, most, each)?;
        let quantized = greedy(self.decoder, &mut self.caches(document, map)?, prompt, most, each)?;
        if observer.interrupted() {
            return Err(StageError::Interrupted);
        }
        let parts = full.iter().zip(&quantized).position(|(full, quantized)| full != quantized);
        Ok(parts.map(|at| Sides { full, quantized, at }))
    }

    /// The prompt and what follows it.
    fn tokens(&self, document: &Document, following: &[u32]) -> Vec<u32> {
        [&document.tokens[..document.prompt_len], following].concat()
    }

    fn continued(&self, before: &[u32], following: &[u32]) -> Result<Continued, StageError> {
        let (shared, whole) =
            (self.tokenizer.decode(before)?, self.tokenizer.decode(&[before, following].concat())?);
        // A character that is still incomplete at the end of the shared part belongs to what follows.
        let shared = shared.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let text = match whole.strip_prefix(shared) {
            Some(text) => text.to_owned(),
            None => self.tokenizer.decode(following)?,
        };
        let text: String = plain(&text).chars().take(AFTER_SHOWN).collect();
        Ok(Continued { token: plain(&self.token(following[0])?), text })
    }

    /// A token as text; one that is only a part of a character as the vocabulary spells it.
    fn token(&self, id: u32) -> Result<String, StageError> {
        let text = self.tokenizer.decode_with_special(&[id])?;
        let spelled = text.contains(char::REPLACEMENT_CHARACTER).then(|| self.tokenizer.token(id)).flatten();
        Ok(spelled.unwrap_or(text))
    }

    /// Full precision's logit of one token less that of another, behind the tokens given.
    fn gap(&self, tokens: &[u32], own: u32, other: u32) -> Result<f64, StageError> {
        let hidden = self.decoder.forward(tokens, &mut self.decoder.full_caches())?;
        let logits = to_host(self.decoder.logits(hidden.narrow(0, tokens.len() - 1, 1)));
        Ok(f64::from(logits[own as usize]) - f64::from(logits[other as usize]))
    }
}

/// Two continuations of one prompt that differ in token number `at`.
struct Sides {
    full: Vec<u32>,
    quantized: Vec<u32>,
    at: usize,
}

/// A text whose control characters, but for line ends and tabs, are replaced: it goes to terminals and pages.
fn plain(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(plain).collect()
}

/// The last characters of a text.
fn end_of(text: &str, most: usize) -> &str {
    let start = text.char_indices().rev().take(most).last().map_or(text.len(), |(index, _)| index);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::parse_map;

    #[test]
    fn a_text_is_cut_between_characters_and_shows_no_control_characters() {
        assert_eq!(end_of("naïve tea", 6), "ve tea");
        assert_eq!(end_of("naïve", 3), "ïve");
        assert_eq!(end_of("tea", 60), "tea");
        assert_eq!(end_of("", 60), "");
        assert_eq!(plain("a\u{1b}[31mb\n\tc\0"), "a\u{fffd}[31mb\n\tc\u{fffd}");
    }

    #[test]
    fn maps_are_tried_from_the_chosen_one_down_and_none_twice() {
        let map = |text: &str| parse_map(text).expect("a map");
        let row = |text: &str, role: Role| ParetoRow::made(text, role, 0.0);
        let front = [
            row("0-1 KV2", Role::Front),
            row("0 KV4, 1 KV2", Role::Front),
            row("0-1 KV4", Role::Chosen),
            row("0-1 KV8", Role::Front),
            row("0-1 K4V2", Role::Uniform),
        ];
        let tried = |chosen: Option<&PrecisionMap>| -> Vec<String> {
            let maps = in_order(chosen, &front, Some(map("0-1 KV2")));
            maps.into_iter().map(|(origin, map)| format!("{origin:?} {map}")).collect()
        };
        assert_eq!(tried(Some(&map("0-1 KV4"))), ["Chosen 0-1 KV4", "Front 0 KV4, 1 KV2", "Front 0-1 KV2"]);
        assert_eq!(tried(None), ["Uniform 0-1 KV2"]);
    }
}
