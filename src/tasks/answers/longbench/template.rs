use std::collections::BTreeMap;
use std::path::Path;

use super::super::{AnswerError, records};
use super::sets::{self, Set};

/// Prompt texts that take the place of our own, by set.
#[derive(Clone, Debug, Default)]
pub(super) struct Templates(BTreeMap<String, String>);

impl Templates {
    /// The texts of a YAML or JSON file; none without a file.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, AnswerError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let wrong =
            |message: String| AnswerError::Line { path: path.to_owned(), place: "templates".into(), message };
        let texts: BTreeMap<String, String> = serde_yaml::from_str(&records::read(path)?)
            .map_err(|error| wrong(format!("expected a text for each set: {error}")))?;
        for (name, text) in &texts {
            if sets::set(name).is_none() {
                return Err(wrong(format!("unknown set `{name}`, expected one of {}", sets::names())));
            }
            if !text.contains("{context}") {
                return Err(wrong(format!("the text of `{name}` has no `{{context}}`")));
            }
        }
        Ok(Self(texts))
    }

    /// The prompt of one item: both fields in one pass, so that a field's own braces stay as they are.
    pub(super) fn fill(&self, set: &Set, context: &str, input: &str) -> String {
        let template = self.0.get(set.name).map_or(set.template, String::as_str);
        let fill_input = |part: &str| part.replace("{input}", input);
        template.split("{context}").map(fill_input).collect::<Vec<_>>().join(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_inside_a_field_stay() {
        let set = sets::set("qasper").expect("a set");
        let filled = Templates(BTreeMap::from([("qasper".into(), "{context}|{input}".into())])).fill(
            set,
            "a {input} b",
            "q {context}",
        );
        assert_eq!(filled, "a {input} b|q {context}");
    }

    #[test]
    fn a_text_without_context_is_refused() {
        let file = records::tests::file("qasper: 'only {input}'\n");
        let error = Templates::read(Some(file.path())).expect_err("no context").to_string();
        assert!(error.ends_with("the text of `qasper` has no `{context}`"), "{error}");
    }
}
