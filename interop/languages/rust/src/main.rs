//! crates.io's etcd-client, over gRPC.
//!
//! A watch of this library ends with the connection; to resume it, the program creates a new one
//! from the revision after the last event. Locks and elections are the server's. The library renews
//! tokens if the option is set.

mod auth;
mod lasting;
mod program;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, DeleteOptions, Error, GetOptions,
    GetResponse, Identity, KeyValue, PutOptions, SortOrder, SortTarget, TlsOptions, Txn, TxnOp,
};
use program::{ask, file, said, step};

type Done = Result<(), Error>;

#[tokio::main]
async fn main() -> Done {
    let mut client = connect(&said("USERNAME"), &said("PASSWORD")).await?;
    keys(&mut client).await?;
    transactions(&mut client).await?;
    if said("BRIEF").is_empty() {
        lasting::watches(&mut client).await?;
        lasting::leases(&mut client).await?;
        lasting::locks(&mut client).await?;
        lasting::elections(&mut client).await?;
        failures(&mut client).await?;
    }
    if !said("USERNAME").is_empty() {
        if said("BRIEF").is_empty() {
            auth::users(&mut client).await?;
        }
        auth::strangers().await?;
        auth::tokens(&mut client).await?;
    }
    snapshot(&mut client).await
}

/// Connects to the server, as the given user if it is not empty.
async fn connect(user: &str, password: &str) -> Result<Client, Error> {
    let mut options = ConnectOptions::new().with_auto_token_refresh(true);
    if !user.is_empty() {
        options = options.with_user(user, password);
    }
    if !said("CACERT").is_empty() {
        options = options.with_tls(
            TlsOptions::new()
                .ca_certificate(Certificate::from_pem(file("CACERT")))
                .identity(Identity::from_pem(file("CERT"), file("KEY"))),
        );
    }
    Client::connect([said("ENDPOINT")], Some(options)).await
}

/// Prints the error of an attempt, with its code and text.
fn failed<T>(name: &str, attempt: Result<T, Error>) {
    match attempt {
        Ok(_) => step(name, "no error"),
        Err(Error::GRpcStatus(status)) => {
            step(name, format!("{:?}: {}", status.code(), status.message()))
        }
        Err(error) => step(name, error),
    }
}

fn shown(kv: &KeyValue) -> String {
    format!("{}={}", String::from_utf8_lossy(kv.key()), String::from_utf8_lossy(kv.value()))
}

fn list(response: &GetResponse) -> String {
    let all: Vec<_> = response.kvs().iter().map(shown).collect();
    format!("{}; more {}, of {}", all.join(" "), response.more(), response.count())
}

async fn keys(client: &mut Client) -> Done {
    let put = client.put("r/a", "planted-true", None).await?;
    step("put", format!("revision {}", put.header().expect("a header").revision()));
    let got = client.get("r/a", None).await?;
    let kv = &got.kvs()[0];
    let (version, created, modified) = (kv.version(), kv.create_revision(), kv.mod_revision());
    step(
        "get",
        format!("{}, version {version}, created at {created}, modified at {modified}", shown(kv)),
    );
    let put = client.put("r/a", "second", Some(PutOptions::new().with_prev_key())).await?;
    step("put again", format!("was {}", shown(put.prev_key().expect("what was"))));
    client.put("r/b", "b", None).await?;
    client.put("r/c", "c", None).await?;
    let prefix = || GetOptions::new().with_prefix();
    step("range", list(&client.get("r/", Some(prefix())).await?));
    let backwards = prefix().with_limit(2).with_sort(SortTarget::Key, SortOrder::Descend);
    step("last first, two", list(&client.get("r/", Some(backwards)).await?));
    step("in the past", list(&client.get("r/a", Some(GetOptions::new().with_revision(2))).await?));
    step("count", client.get("r/", Some(prefix().with_count_only())).await?.count());
    step("delete", client.delete("r/b", None).await?.deleted());
    let deleted = client.delete("r/c", Some(DeleteOptions::new().with_prev_key())).await?;
    step("delete, and what was", shown(&deleted.prev_kvs()[0]));
    step("delete nothing", client.delete("r/z", None).await?.deleted());
    Ok(())
}

async fn transactions(client: &mut Client) -> Done {
    for value in ["second", "first"] {
        let txn = Txn::new()
            .when([Compare::value("r/a", CompareOp::Equal, value)])
            .and_then([TxnOp::put("r/t", "then", None), TxnOp::get("r/t", None)])
            .or_else([TxnOp::get("r/a", None), TxnOp::delete("r/t", None)]);
        let done = client.txn(txn).await?;
        let (revision, answers) =
            (done.header().expect("a header").revision(), done.op_responses().len());
        step(
            &format!("txn if {value}"),
            format!("{}, {answers} answers, revision {revision}", done.succeeded()),
        );
    }
    Ok(())
}

async fn failures(client: &mut Client) -> Done {
    failed("future", client.get("r/a", Some(GetOptions::new().with_revision(1000))).await);
    client.compact(4, None).await?;
    failed("compacted", client.get("r/a", Some(GetOptions::new().with_revision(2))).await);
    failed("compacted again", client.compact(4, None).await);
    failed("no key", client.put("", "x", None).await);
    failed("no lease", client.put("r/x", "x", Some(PutOptions::new().with_lease(1234))).await);
    failed("no lease to revoke", client.lease_revoke(1234).await);
    failed("no lease to keep", client.lease_keep_alive(1234).await);
    let twice = Txn::new().and_then([TxnOp::put("r/x", "1", None), TxnOp::put("r/x", "2", None)]);
    failed("twice", client.txn(twice).await);
    failed("too large", client.put("r/x", "x".repeat(1600 << 10), None).await);
    failed("too large for gRPC", client.put("r/x", "x".repeat(3 << 20), None).await);
    lasting::watch_the_compacted(client).await
}

async fn snapshot(client: &mut Client) -> Done {
    let mut stream = client.snapshot().await?;
    let mut bytes = Vec::new();
    while let Some(piece) = stream.message().await? {
        bytes.extend_from_slice(piece.blob());
    }
    let path = format!("{}/snapshot.db", said("WORKDIR"));
    std::fs::write(&path, bytes).expect("the directory can be written to");
    step("snapshot", ask(&format!("status {path}")));
    Ok(())
}
