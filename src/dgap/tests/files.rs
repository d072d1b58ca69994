use super::*;

#[test]
fn heads_read_back_as_they_were_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dgap.safetensors");
    heads().write(&path).expect("written");
    assert_eq!(Heads::read(&path).expect("read"), heads());
    let yaml = std::fs::read_to_string(folder.path().join("dgap.yaml")).expect("a description");
    let about: About = serde_yaml::from_str(&yaml).expect("a description");
    assert_eq!(about, heads().about);
}

#[test]
fn equal_heads_are_equal_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str| {
        heads().write(&folder.path().join(name)).expect("written");
        std::fs::read(folder.path().join(name)).expect("read")
    };
    assert_eq!(written("a.safetensors"), written("b.safetensors"));
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dgap.safetensors");
    heads().write(&path).expect("written");
    let bytes = std::fs::read(&path).expect("read");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Heads::read(&path).expect_err("damaged").to_string()
    };
    assert!(refused(&bytes[..bytes.len() / 2]).contains("dgap.safetensors"));
    assert!(refused(b"").contains("dgap.safetensors"));
    let mut lying = bytes.clone();
    lying[..8].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    assert!(refused(&lying).contains("dgap.safetensors"));
    let mut not_finite = bytes.clone();
    let last = not_finite.len() - 4;
    not_finite[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(refused(&not_finite).contains("expected finite"), "{}", refused(&not_finite));
    let mut larger = heads();
    larger.about.training.sizes.width = usize::MAX;
    larger.write(&path).expect("written");
    assert!(Heads::read(&path).expect_err("too large").to_string().contains("expected widths"));
}

#[test]
fn heads_of_another_setting_are_refused_with_both_named() {
    let (path, about) = (Path::new("runs/dgap.safetensors"), about());
    assert!(about.check_setting(path, &Setting { name: "k1v1.yaml".into(), ..setting("KV1") }).is_ok());
    let error = about.check_setting(path, &setting("KV2")).expect_err("another setting");
    assert_eq!(
        error.to_string(),
        "heads `runs/dgap.safetensors` were trained for KV1 (0-1 KV1, kivi), but the cache is KV2 (0-1 KV2, kivi)"
    );
}

#[test]
fn a_quantized_trace_reads_back_and_is_refused_where_it_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.safetensors");
    let traced = traced(&path);
    let mut states = Vec::new();
    traced.hidden(2, 119, &mut states);
    let sheet = traced.sheet(2);
    assert_eq!((states.len(), sheet.positions()), (HIDDEN, 120));
    // Hidden states are kept as f16: their logits are those of the sheet to three digits.
    let again = logits(&states);
    let position = sheet.position(119);
    let top = again[position.ids[0] as usize];
    for (&id, &z) in position.ids.iter().zip(position.logits) {
        assert!((again[id as usize] - top - z).abs() < 1e-2, "{id}");
    }
    drop(traced);
    let bytes = std::fs::read(&path).expect("read");
    for damaged in [&bytes[..bytes.len() - 3], &bytes[..40], b""] {
        std::fs::write(&path, damaged).expect("written");
        assert!(Traced::read(&path).is_err());
    }
}

#[test]
fn the_export_holds_the_heads_and_refuses_those_that_read_hidden_states() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (folder.path().join("dgap.safetensors"), folder.path().join("dgap_processor.py"));
    heads().write(&path).expect("written");
    let error = export::python(&path, Some(Corrector::C3), &out).expect_err("c3 reads hidden states");
    assert!(error.to_string().ends_with("hold no `c3`, but temperature, token-bias, c0, c2"), "{error}");
    export::python(&path, Some(Corrector::C2), &out).expect("written");
    let text = std::fs::read_to_string(&out).expect("read");
    assert!(
        text.contains("\"corrector\": \"c2\"") && text.contains("\"corrector.pooled\": ((10, 5),"),
        "{text}"
    );
}
