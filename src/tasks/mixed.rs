use std::path::Path;

use super::{DocumentCounts, Prompt, TaskError, TaskSpec, prompts};

/// The same number of prompts from each of the three domains: `arithmetic`, `retrieval`, `prose`.
///
/// For measurements that should not depend on the kind of text, and the rank correlation between kinds that
/// shows whether they do. Prose comes from `text` where it is given; otherwise it is generated (`narrative`),
/// and prose and retrieval then share one grammar, which flatters their correlation. Ids are
/// `arithmetic-000`; every other field of the specs is at its default.
///
/// # Errors
/// As [`prompts`].
pub fn mixed(
    documents: usize,
    min_tokens: usize,
    seed: u64,
    text: Option<&Path>,
    count_tokens: &dyn Fn(&str) -> usize,
) -> Result<Vec<Prompt>, TaskError> {
    let prose = if text.is_some() { "plain-text" } else { "narrative" };
    let mut mixed = Vec::new();
    for name in ["arithmetic-chain", "ruler-niah", prose] {
        let spec = TaskSpec {
            min_tokens,
            documents: DocumentCounts { search: documents, select: 0, test: 0 },
            seed,
            path: text.filter(|_| name == "plain-text").map(Path::to_owned),
            ..TaskSpec::named(name)
        };
        let numbered = prompts(&spec, count_tokens)?.into_iter().enumerate();
        mixed.extend(
            numbered
                .map(|(index, (_, prompt))| Prompt { id: format!("{}-{index:03}", prompt.domain), ..prompt }),
        );
    }
    Ok(mixed)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn prose_is_the_users_own_where_a_file_is_given() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(b"Only these words stand here. And these.").expect("it takes the text");
        let prompts = mixed(1, 5, 0, Some(file.path()), &|text| text.split_whitespace().count());
        assert_eq!(prompts.expect("prompts")[2].text, "Only these words stand here.");
    }

    #[test]
    fn every_domain_has_its_share() {
        let ids: Vec<_> = mixed(2, 100, 0, None, &|text| text.split_whitespace().count())
            .expect("prompts")
            .into_iter()
            .map(|prompt| prompt.id)
            .collect();
        assert_eq!(
            ids,
            ["arithmetic-000", "arithmetic-001", "retrieval-000", "retrieval-001", "prose-000", "prose-001"]
        );
    }
}
