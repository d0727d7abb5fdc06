//! Users, roles, wrong credentials and tokens.

use etcd_client::{Client, Permission};

use crate::program::{ask, said, step};
use crate::{Done, connect, failed, list};

pub async fn users(client: &mut Client) -> Done {
    client.role_add("worker").await?;
    client.role_grant_permission("worker", Permission::read_write("w/").with_prefix()).await?;
    client.user_add("ann", "first", None).await?;
    client.user_grant_role("ann", "worker").await?;
    failed("user twice", client.user_add("ann", "first", None).await);
    failed("no such role", client.role_get("none").await);
    let (users, roles, anns) =
        (client.user_list().await?, client.role_list().await?, client.user_get("ann").await?);
    step(
        "users",
        format!("{:?}, roles {:?}, ann has {:?}", users.users(), roles.roles(), anns.roles()),
    );
    let role = client.role_get("worker").await?;
    let permission = &role.permissions()[0];
    let (kind, key, end) =
        (permission.get_type(), permission.key_str()?, permission.range_end_str()?);
    step("role", format!("permission {kind} for {key} to {end}"));
    let mut ann = connect("ann", "first").await?;
    ann.put("w/1", "x", None).await?;
    failed("beyond", ann.put("r/1", "x", None).await);
    client.user_change_password("ann", "second").await?;
    failed("old password", connect("ann", "first").await);
    client.user_delete("ann").await?;
    client.role_delete("worker").await?;
    Ok(())
}

pub async fn strangers() -> Done {
    failed("nobody", connect("", "").await?.get("r/a", None).await);
    failed("wrong password", connect("root", "wrong").await);
    let mut reader = connect(&said("READER"), &said("READER_PASSWORD")).await?;
    step("reader", list(&reader.get("r/a", None).await?));
    failed("reader puts", reader.put("r/a", "x", None).await);
    failed("reader lists users", reader.user_list().await);
    Ok(())
}

pub async fn tokens(client: &mut Client) -> Done {
    ask("expire");
    client.put("r/a", "renewed", None).await?;
    step("token renewed", list(&client.get("r/a", None).await?));
    Ok(())
}
