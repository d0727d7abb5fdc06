//! Compiles the .proto files: to Rust for this crate's modules, and to descriptors and tables for
//! those who need names at run time.

#[path = "build/shapes.rs"]
mod shapes;

use std::{env, error::Error, fs, path::Path};

/// The files nobody imports; the others come along with them.
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

    // protox keeps options it has no type for (the version marks, the routes) only in encoded form.
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("shapes.rs"), shapes::rust(&compiler.descriptor_pool())?)?;

    // The source is wanted for its comments, which become documentation.
    let mut files = compiler.include_source_info(true).file_descriptor_set();
    // Options have no use as Rust types.
    files.file.retain(|file| !file.package().starts_with("google"));
    for field in files.file.iter_mut().flat_map(|f| &mut f.message_type).flat_map(|m| &mut m.field)
    {
        // Left alone, `peerURLs` would become `peer_ur_ls`. Names are not on the wire, so here they
        // are free.
        field.name = Some(field.name().replace("URLs", "_urls"));
        // prost-build 0.14 takes a list with any option, such as a version mark, for unpacked. No
        // field here needs its options to become Rust.
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
