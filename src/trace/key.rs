use sha2::{Digest, Sha256};

use super::{Document, Trace};

impl Trace {
    /// sha256 of all that an evaluation on this trace can depend on, as 64 hexadecimal digits.
    ///
    /// That is the model's fingerprint and shape and every field of every document, bit by bit. The names
    /// that a user gave and the version that recorded it do not count.
    pub fn content_key(&self) -> String {
        let meta = &self.meta;
        let mut hash = Canonical(Sha256::new());
        hash.text("kvtune trace 1");
        hash.text(&meta.model_fingerprint);
        for size in [meta.n_layers, meta.hidden_size, meta.vocab_size, meta.top, self.documents.len()] {
            hash.number(size);
        }
        self.documents.iter().for_each(|document| hash.document(document));
        hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Values hashed at once: four bytes at a time would take several times as long.
const BLOCK: usize = 1024;

/// Every value little-endian, every list after its length: no two traces hash the same bytes.
struct Canonical(Sha256);

impl Canonical {
    fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text);
    }

    fn list<T: Copy>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; 4]) {
        self.number(values.len());
        let mut block = Vec::with_capacity(4 * BLOCK.min(values.len()));
        for values in values.chunks(BLOCK) {
            block.clear();
            block.extend(values.iter().flat_map(|&value| bytes(value)));
            self.0.update(&block);
        }
    }

    fn document(&mut self, document: &Document) {
        self.text(&document.id);
        self.text(&document.domain);
        self.text(&document.split.to_string());
        self.number(document.prompt_len);
        self.list(&document.tokens, u32::to_le_bytes);
        self.list(&document.top_ids, u32::to_le_bytes);
        self.list(&document.top_logits, f32::to_le_bytes);
        self.list(&document.log_sum_exp, f32::to_le_bytes);
        self.list(&document.hidden, f32::to_le_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::trace;
    use super::super::{Split, Trace};

    /// Changes one thing in a trace.
    type Change = fn(&mut Trace);

    #[test]
    fn every_change_that_matters_changes_the_key() {
        let changes: [Change; 7] = [
            |trace| trace.meta.model_fingerprint.push('0'),
            |trace| trace.documents[1].id.push('0'),
            |trace| trace.documents[1].split = Split::Select,
            |trace| trace.documents[0].prompt_len = 1,
            |trace| trace.documents[0].tokens[0] = 2,
            |trace| trace.documents[0].hidden[5] = 0.0, // it was −0
            |trace| trace.documents.reverse(),
        ];
        let mut keys = vec![trace().content_key()];
        for change in changes {
            let mut changed = trace();
            change(&mut changed);
            keys.push(changed.content_key());
        }
        assert!(keys.iter().all(|key| key.len() == 64));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn names_do_not_change_the_key() {
        let mut renamed = trace();
        renamed.meta.model_id = "./folder".into();
        renamed.meta.version = "9.9.9".into();
        assert_eq!(renamed.content_key(), trace().content_key());
    }
}
