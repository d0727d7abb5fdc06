//! Compiles the services of the .proto files of `proto`, whose messages already exist there.

use std::error::Error;

/// The directory of the .proto files.
const PROTO: &str = "../proto/proto";

/// The files that define services.
const SERVICES: [&str; 9] = [
    "etcdserverpb/auth.proto",
    "etcdserverpb/cluster.proto",
    "etcdserverpb/kv.proto",
    "etcdserverpb/lease.proto",
    "etcdserverpb/maintenance.proto",
    "etcdserverpb/watch.proto",
    "grpc/health/v1/health.proto",
    "v3electionpb/election.proto",
    "v3lockpb/lock.proto",
];

/// The codec of every method.
const CODEC: &str = "tonic_prost::ProstCodec";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let mut compiler = protox::Compiler::new([PROTO])?;
    // Source info keeps the comments, which become documentation.
    compiler.include_source_info(true).open_files(SERVICES)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .codec_path(CODEC)
        .extern_path(".authpb", "::proto::authpb")
        .extern_path(".etcdserverpb", "::proto::etcdserverpb")
        .extern_path(".grpc.health.v1", "::proto::health")
        .extern_path(".mvccpb", "::proto::mvccpb")
        .extern_path(".v3electionpb", "::proto::v3electionpb")
        .extern_path(".v3lockpb", "::proto::v3lockpb")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
