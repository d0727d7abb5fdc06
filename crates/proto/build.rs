//! Compiles the .proto files: to Rust types, and to descriptors and tables for use at run time.

#[path = "build/shapes.rs"]
mod shapes;

use std::{env, error::Error, fs, path::Path};

/// The files that no other file imports; the others are included through them.
const ROOTS: [&str; 10] = [
    "etcdserverpb/cluster.proto",
    "etcdserverpb/raft_internal.proto",
    "etcdserverpb/watch.proto",
    "grpc/health/v1/health.proto",
    "leasepb/lease.proto",
    "raftpb/raft.proto",
    "snappb/snap.proto",
    "v3electionpb/election.proto",
    "v3lockpb/lock.proto",
    "walpb/record.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    println!("cargo::rerun-if-changed=build");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_files(ROOTS)?;

    // protox keeps options without a type (version annotations, routes) only in encoded form.
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("shapes.rs"), shapes::rust(&compiler.descriptor_pool())?)?;

    // Source info keeps the comments, which become documentation.
    let mut files = compiler.include_source_info(true).file_descriptor_set();
    // Options are not needed as Rust types.
    files.file.retain(|file| !file.package().starts_with("google"));
    for field in files.file.iter_mut().flat_map(|f| &mut f.message_type).flat_map(|m| &mut m.field)
    {
        // Without this `peerURLs` would become `peer_ur_ls`. Names are not on the wire and can be
        // changed here.
        field.name = Some(field.name().replace("URLs", "_urls"));
        // prost-build 0.14 treats a list with any option, such as a version annotation, as
        // unpacked. No field here needs its options in Rust.
        field.options = None;
    }

    prost_build::Config::new()
        .bytes(["."])
        // Sorted, so that equal messages have equal bytes.
        .btree_map(["."])
        .enable_type_names()
        .compile_fds(files)?;
    Ok(())
}
