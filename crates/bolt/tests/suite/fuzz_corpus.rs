//! Replays the seeds of the fuzz target `bolt_file`: each input reaches code that no other does.

use std::path::PathBuf;

use crate::exercise::exercise;

#[test]
fn the_corpus_causes_no_panic() {
    let dir: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../fuzz/seeds/bolt_file"].iter().collect();
    let mut inputs: Vec<PathBuf> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(inputs.len() > 20, "{} inputs", inputs.len());
    for input in inputs {
        let bytes = std::fs::read(&input).unwrap();
        let survived = std::panic::catch_unwind(|| exercise(&bytes));
        assert!(survived.is_ok(), "{}", input.display());
    }
}
