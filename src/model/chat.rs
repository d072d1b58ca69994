//! Messages → the text that a model was trained to read them in.

use std::path::{Path, PathBuf};

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use serde::Serialize;

use super::special::{SpecialTokens, Templates};
use super::{Checkpoint, ModelError, Tokenizer};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instructions before a conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Message {
    /// What a user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }
}

/// A model's chat template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTemplate {
    path: PathBuf,
    source: String,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// The template that comes with a model: of a GGUF file, `chat_template.jinja` or `tokenizer_config.json`.
    ///
    /// # Errors
    /// A template that cannot be read or does not parse.
    pub fn load(checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Result<Option<Self>, ModelError> {
        let config = checkpoint.config();
        let token = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
        let (bos_token, eos_token) =
            (token(config.bos_token_id), token(config.eos_token_ids.first().copied()));
        let template = match checkpoint.gguf() {
            Some(gguf) => gguf.metadata().text("tokenizer.chat_template")?.map(|source| Self {
                path: gguf.path().to_path_buf(),
                source: source.into(),
                bos_token,
                eos_token,
            }),
            None => Self::read_directory(checkpoint.path(), bos_token, eos_token)?,
        };
        if let Some(template) = &template {
            environment().template_from_str(&template.source).map_err(|error| template.failed(&error))?;
        }
        Ok(template)
    }

    fn read_directory(directory: &Path, bos: String, eos: String) -> Result<Option<Self>, ModelError> {
        let special = SpecialTokens::read(directory)?;
        let bos_token = special.bos().map_or(bos, str::to_owned);
        let eos_token = special.eos().map_or(eos, str::to_owned);
        let path = directory.join("chat_template.jinja");
        if path.is_file() {
            let source = std::fs::read_to_string(&path).map_err(ModelError::read(&path))?;
            return Ok(Some(Self { path, source, bos_token, eos_token }));
        }
        let path = directory.join("tokenizer_config.json");
        let source = special.chat_template.as_ref().and_then(Templates::default_template).map(str::to_owned);
        Ok(source.map(|source| Self { path, source, bos_token, eos_token }))
    }

    /// The text of a conversation; with `add_generation_prompt` it ends where the model's answer begins.
    ///
    /// # Errors
    /// What the template itself refuses, such as roles that do not alternate, or cannot compute.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ModelError> {
        let bos_token = &self.bos_token;
        let eos_token = &self.eos_token;
        let context = context! { messages, add_generation_prompt, bos_token, eos_token };
        environment().render_str(&self.source, context).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &Error) -> ModelError {
        ModelError::key(
            &self.path,
            "chat_template",
            format!("not usable: {error}"),
            "a template that renders",
        )
    }
}

/// Jinja as transformers sets it up.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", strftime);
    environment.add_filter("tojson", tojson);
    environment
}

/// A fixed day, 26 July 2024, at midnight.
///
/// **Ours**: the day that Llama 3's template takes where it has no clock, so that a job gives the same prompts,
/// and so the same result, on every day.
fn strftime(format: &str) -> Result<String, Error> {
    let mut text = String::with_capacity(format.len());
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let code = characters.next().unwrap_or('%');
        text.push_str(match code {
            'Y' => "2024",
            'y' => "24",
            'm' => "07",
            'd' => "26",
            'B' => "July",
            'b' => "Jul",
            'A' => "Friday",
            'a' => "Fri",
            'j' => "208",
            'H' | 'M' | 'S' => "00",
            '%' => "%",
            other => return Err(Error::new(ErrorKind::InvalidOperation, format!("no date code %{other}"))),
        });
    }
    Ok(text)
}

/// JSON as Python writes it, and not made safe for HTML as minijinja's own filter does.
fn tojson(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    match indent {
        Some(width) => {
            let indent = " ".repeat(width.min(16));
            json_with(&value, serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes())).map_err(wrong)
        }
        None => json_with(&value, PythonFormatter).map_err(wrong),
    }
}

fn json_with(value: &Value, formatter: impl serde_json::ser::Formatter) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// A space after each comma and colon.
struct PythonFormatter;

impl serde_json::ser::Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_data::{golden, real_model};

    fn template(source: &str) -> ChatTemplate {
        let [bos_token, eos_token] = ["<s>", "</s>"].map(str::to_owned);
        ChatTemplate { path: "t".into(), source: source.into(), bos_token, eos_token }
    }

    fn render(source: &str) -> Result<String, ModelError> {
        template(source).render(&[Message::user(" hi ")], true)
    }

    #[test]
    fn roles_tokens_and_python_methods_are_there() {
        let source =
            "{{ bos_token }}{% for m in messages %}\n  {{ m.role }}: {{ m['content'].strip() }}{% endfor %}";
        assert_eq!(render(source).expect("a text"), "<s>  user: hi");
    }

    #[test]
    fn what_a_template_raises_is_the_error() {
        let message =
            render("{{ raise_exception('roles must alternate') }}").expect_err("raised").to_string();
        assert!(message.contains("roles must alternate"), "{message}");
    }

    #[test]
    fn the_clock_stands_still() {
        assert_eq!(render("{{ strftime_now('%d %b %Y') }}").expect("a date"), "26 Jul 2024");
        assert!(render("{{ strftime_now('%Q') }}").is_err());
    }

    #[test]
    fn json_is_written_as_python_does() {
        assert_eq!(render("{{ {'a': [1, '<b>']} | tojson }}").expect("JSON"), r#"{"a": [1, "<b>"]}"#);
        assert_eq!(render("{{ [1] | tojson(indent=2) }}").expect("JSON"), "[\n  1\n]");
    }

    #[test]
    fn the_real_models_templates_give_the_reference_text() {
        for (model, reference) in [
            ("smollm2-135m", "logits-smollm2.json"),
            ("qwen2.5-coder-0.5b", "logits-qwen2.5-coder-0.5b.json"),
        ] {
            let (Some(path), Some(golden)) = (real_model(model), golden(reference)) else { continue };
            let checkpoint = Checkpoint::open(&path).expect("a model");
            let tokenizer = Tokenizer::load(&checkpoint).expect("a tokenizer");
            let template =
                ChatTemplate::load(&checkpoint, &tokenizer).expect("a template").expect("there is one");
            let question = golden["chat"]["question"].as_str().expect("a question");
            let rendered = template.render(&[Message::user(question)], true).expect("a text");
            assert_eq!(rendered, golden["chat"]["rendered"].as_str().expect("a text"), "{model}");
            let ids = tokenizer.encode_from_start(&rendered, BosPolicy::Auto).expect("ids");
            assert_eq!(serde_json::json!(ids), golden["chat"]["ids"], "{model}");
        }
    }

    use crate::model::BosPolicy;
}
