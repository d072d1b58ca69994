use std::borrow::Cow;
use std::ops::Range;

/// A piece of a text: what is fed of it, and which of its tokens are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    bos: Option<u32>,
    text: &'a [u32],
    /// Tokens of the text that are read and not scored.
    context: usize,
}

impl<'a> Window<'a> {
    /// A piece whose first `context` tokens are only read, behind the token that begins texts, if any.
    ///
    /// A first token with nothing before it cannot be predicted, and counts as context.
    pub fn new(bos: Option<u32>, text: &'a [u32], context: usize) -> Self {
        let context = if bos.is_none() { context.max(1) } else { context };
        Self { bos, text, context: context.min(text.len()) }
    }

    /// A piece by itself, scored from its second token on.
    pub fn plain(text: &'a [u32]) -> Self {
        Self::new(None, text, 0)
    }

    /// The pieces of `len` tokens that begin every `stride` tokens, as long as they are whole.
    ///
    /// Of the first piece everything is scored, of a later one its last `stride` tokens, so that pieces which overlap
    /// score each token once, with at least `len − stride` tokens before it but in the first piece: the sliding
    /// windows of Hugging Face's guide to perplexity. There a shorter piece at the end of the text is scored too.
    pub fn slide(bos: Option<u32>, text: &'a [u32], len: usize, stride: usize) -> Vec<Self> {
        let stride = stride.clamp(1, len.max(1));
        let piece = |piece: &'a [u32], index: usize| {
            Self::new(bos, piece, if index == 0 { 0 } else { len.max(1) - stride })
        };
        let pieces = text.windows(len.max(1)).step_by(stride).enumerate();
        pieces.map(|(index, tokens)| piece(tokens, index)).collect()
    }

    /// Tokens that the model is fed.
    pub fn len(&self) -> usize {
        usize::from(self.bos.is_some()) + self.text.len()
    }

    /// Whether there is nothing to feed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the model is fed.
    pub fn tokens(&self) -> Cow<'a, [u32]> {
        match self.bos {
            None => Cow::Borrowed(self.text),
            Some(bos) => Cow::Owned([&[bos], self.text].concat()),
        }
    }

    /// The tokens that are scored.
    pub fn scored(&self) -> &'a [u32] {
        &self.text[self.context..]
    }

    /// The positions whose logits are about the scored tokens, in the order of these.
    pub(super) fn positions(&self) -> Range<usize> {
        let end = self.len().saturating_sub(1);
        end - self.scored().len()..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: [u32; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

    fn scored(bos: Option<u32>, len: usize, stride: usize) -> Vec<Vec<u32>> {
        Window::slide(bos, &TEXT, len, stride).iter().map(|window| window.scored().to_vec()).collect()
    }

    #[test]
    fn windows_side_by_side_lose_their_first_tokens_and_the_rest_of_the_text() {
        assert_eq!(scored(None, 4, 4), [[1, 2, 3], [5, 6, 7]]);
        let plain: Vec<Window<'_>> = TEXT.chunks_exact(4).map(Window::plain).collect();
        assert_eq!(Window::slide(None, &TEXT, 4, 4), plain);
        assert_eq!((plain[1].len(), plain[1].positions()), (4, 0..3));
    }

    #[test]
    fn a_token_that_begins_texts_lets_every_token_be_scored() {
        assert_eq!(scored(Some(9), 4, 4), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        let windows = Window::slide(Some(9), &TEXT, 4, 4);
        assert_eq!(windows[1].tokens()[..], [9, 4, 5, 6, 7]);
        assert_eq!((windows[1].len(), windows[1].positions()), (5, 0..4));
    }

    #[test]
    fn windows_that_overlap_score_each_token_once() {
        assert_eq!(scored(None, 5, 2), [vec![1, 2, 3, 4], vec![5, 6], vec![7, 8], vec![9, 10]]);
        assert_eq!(scored(Some(9), 5, 3), [vec![0, 1, 2, 3, 4], vec![5, 6, 7], vec![8, 9, 10]]);
        let windows = Window::slide(None, &TEXT, 5, 2);
        // The last position of a window has no token after it, so tokens 5 and 6 are said by positions 2 and 3.
        assert_eq!((windows[1].tokens()[..].to_vec(), windows[1].positions()), (vec![2, 3, 4, 5, 6], 2..4));
        for window in &windows[1..] {
            let before = window.len() - window.scored().len();
            assert_eq!(before, 5 - 2);
        }
    }

    #[test]
    fn a_text_shorter_than_a_window_has_none() {
        assert!(Window::slide(None, &TEXT[..3], 4, 1).is_empty());
        assert!(Window::slide(None, &[], 4, 1).is_empty());
        assert!(Window::plain(&[]).is_empty());
    }
}
