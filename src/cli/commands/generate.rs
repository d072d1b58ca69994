use std::io::Read;

use super::Session;
use crate::cli::args::GenerateArgs;
use crate::job::stages::{self, Generation};

pub(super) fn generate(args: GenerateArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = Generation {
        model: args.model,
        prompt: prompt(args.prompt)?,
        chat: args.chat,
        max_new_tokens: args.max_new_tokens,
        weights: args.weights.weights,
    };
    let output = session.output;
    session
        .with_context(false, |context| stages::generate(&request, context, &mut |text| output.data(text)))?;
    Ok(output.data("\n")?)
}

fn prompt(typed: String) -> std::io::Result<String> {
    if typed != "-" {
        return Ok(typed);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
