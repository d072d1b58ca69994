use serde::Serialize;

use super::folder::Folder;
use crate::report::{Continued, FlipExample, FlipOrigin};

/// A changed token and what followed, as the page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Example {
    lead: String,
    before: String,
    sides: [Side; 2],
}

/// A continuation, the changed token apart where the text begins with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Side {
    name: String,
    token: String,
    rest: String,
}

/// The example of an analysis of the model whose page this is.
pub(super) fn example(folder: &Folder) -> Option<Example> {
    let found = folder.own_analysis()?.example.as_ref()?;
    let name = name(found, folder);
    Some(Example {
        lead: lead(found, &name),
        before: found.before.clone(),
        sides: [side("Full precision", &found.full), side(&capital(&name), &found.quantized)],
    })
}

/// An analysis may be older than the map beside it.
fn name(found: &FlipExample, folder: &Folder) -> String {
    let is_chosen = folder.precision.as_ref().is_some_and(|file| file.map == found.map);
    match found.origin {
        FlipOrigin::Chosen if !is_chosen => format!("a map of {:.2} bits", found.equivalent_bits),
        _ => found.name(),
    }
}

fn lead(found: &FlipExample, name: &str) -> String {
    let same = match found.unchanged.as_slice() {
        [] => String::new(),
        maps => format!("Writing freely, {} changed no token of any document. ", maps.join(" and ")),
    };
    format!(
        "{same}Writing freely from the same prompt, {name} changes a token within the recorded length in {} of {} \
         documents. This is the first of them, {}: the sides part at token {} of the continuation, where full \
         precision's logit of its own token is {:.3} above that of the other.",
        found.changed,
        found.documents,
        found.document,
        found.agreed + 1,
        found.logit_gap
    )
}

fn side(name: &str, continued: &Continued) -> Side {
    let Continued { token, text } = continued;
    let (name, token, rest) = match text.strip_prefix(token.as_str()) {
        Some(rest) => (name, token.clone(), rest),
        // The token ends the text, or is a part of a character.
        None if text.is_empty() => (name, token.clone(), ""),
        None => (name, String::new(), text.as_str()),
    };
    Side { name: name.to_owned(), token, rest: rest.to_owned() }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stands_apart_where_the_text_begins_with_it() {
        let continued = |token: &str, text: &str| Continued { token: token.into(), text: text.into() };
        let parts = |token: &str, text: &str| {
            let Side { token, rest, .. } = side("x", &continued(token, text));
            (token, rest)
        };
        assert_eq!(parts(" a", " a cat"), (" a".into(), " cat".into()));
        assert_eq!(parts("<end>", ""), ("<end>".into(), String::new()));
        assert_eq!(parts("\u{fffd}", "ï"), (String::new(), "ï".into()));
        assert_eq!(capital("the map"), "The map");
    }
}
