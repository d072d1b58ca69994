//! Texts in windows, for perplexity.

use std::path::Path;

use super::session::Session;
use super::{StageError, fit};
use crate::model::{BosPolicy, Tokenizer};
use crate::score::Window;

/// How a text is cut into windows; what does not fill a last one is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windowing {
    /// Tokens of the text that a window has.
    pub window: usize,
    /// Tokens from one window's start to the next one's, at most `window`; as many as that where absent, so that windows
    /// stand side by side.
    pub stride: Option<usize>,
    /// Windows at most, from the start.
    pub most: Option<usize>,
    /// Whether the token that begins texts is fed before each window, in addition to its tokens.
    pub bos: BosPolicy,
}

impl Windowing {
    /// Windows side by side, nothing before them.
    pub fn plain(window: usize, most: Option<usize>) -> Self {
        Self { window, stride: None, most, bos: BosPolicy::Never }
    }

    /// Refuses strides that leave tokens out, or go nowhere.
    ///
    /// # Errors
    /// [`StageError::Stride`].
    pub(super) fn check(&self) -> Result<(), StageError> {
        match self.stride.filter(|stride| !(1..=self.window).contains(stride)) {
            Some(stride) => Err(StageError::Stride { stride, window: self.window }),
            None => Ok(()),
        }
    }

    fn stride(&self) -> usize {
        self.stride.unwrap_or(self.window)
    }
}

/// The tokens of a text that has at least one window.
pub(super) struct Cut {
    windowing: Windowing,
    /// What stands before each window, and how it is spelled.
    bos: Option<(u32, String)>,
    tokens: Vec<u32>,
}

impl Cut {
    pub(super) fn read(
        path: &Path,
        windowing: Windowing,
        session: &Session<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Self, StageError> {
        windowing.check()?;
        let bos = bos(windowing.bos, session, tokenizer)?;
        fit::window(windowing.window, bos.is_some(), session)?;
        let text = crate::report::read_text(path)?;
        let mut tokens = tokenizer.encode_from_start(&text, BosPolicy::Never)?;
        if bos.as_ref().is_some_and(|(bos, _)| tokens.first() == Some(bos)) {
            // Written in the text, it would stand before the first window twice.
            tokens.remove(0);
        }
        if tokens.len() < windowing.window {
            let (found, window) = (tokens.len(), windowing.window);
            return Err(StageError::Unmet {
                message: format!("`{}` has {found} tokens, but a window has {window}", path.display()),
                hint: Some("use a longer text or a smaller `--window`".into()),
            });
        }
        Ok(Self { windowing, bos, tokens })
    }

    pub(super) fn windows(&self) -> Vec<Window<'_>> {
        let bos = self.bos.as_ref().map(|&(id, _)| id);
        let mut windows = Window::slide(bos, &self.tokens, self.windowing.window, self.windowing.stride());
        windows.truncate(self.windowing.most.unwrap_or(usize::MAX));
        windows
    }

    /// Tokens in the cache at the end of a window.
    pub(super) fn cached(&self) -> usize {
        self.windowing.window + usize::from(self.bos.is_some())
    }

    /// `6 windows of 128 tokens, one every 64, no BOS before them`
    pub(super) fn summary(&self, windows: usize) -> String {
        let Windowing { window, .. } = self.windowing;
        let stride = match self.windowing.stride() {
            stride if stride < window => format!(", one every {stride}"),
            _ => String::new(),
        };
        let bos = match &self.bos {
            Some((id, token)) => format!("BOS {token} ({id}) before each"),
            None => String::from("no BOS before them"),
        };
        format!("{windows} windows of {window} tokens{stride}, {bos}")
    }
}

fn bos(
    policy: BosPolicy,
    session: &Session<'_>,
    tokenizer: &Tokenizer,
) -> Result<Option<(u32, String)>, StageError> {
    match tokenizer.bos(policy) {
        None if policy == BosPolicy::Always => Err(StageError::Unmet {
            message: format!("`{}` has no token that begins texts (BOS)", session.resolved.id),
            hint: Some("leave out `--bos always`".into()),
        }),
        None => Ok(None),
        Some(id) => Ok(Some((id, tokenizer.token(id).unwrap_or_default()))),
    }
}
