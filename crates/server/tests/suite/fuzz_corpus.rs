//! Replays the seeds of the fuzz target `apply`. Each input reaches code that no other input does.

use std::path::PathBuf;

use crate::exercise::exercise;

#[test]
fn every_input_of_the_corpus_passes_without_a_panic() {
    let dir: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../fuzz/seeds/apply"].iter().collect();
    let mut inputs: Vec<PathBuf> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(inputs.len() > 20, "only {} inputs in the corpus", inputs.len());
    for input in inputs {
        let bytes = std::fs::read(&input).unwrap();
        let result = std::panic::catch_unwind(|| exercise(&bytes));
        assert!(result.is_ok(), "panic on input {}", input.display());
    }
}
