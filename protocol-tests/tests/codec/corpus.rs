//! The corpus of the fuzz targets, replayed: what was found once stays fixed.

use std::fs;
use std::path::Path;

#[test]
fn every_seed_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in servicebus_fuzz::TARGETS {
        let seeds: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(!seeds.is_empty(), "no seeds for {name}");
        for seed in seeds {
            println!("{}", seed.display());
            target(&fs::read(&seed).unwrap());
        }
    }
}
