import io.etcd.jetcd.Auth;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.auth.Permission;

/** Users, roles, wrong credentials and tokens. */
final class Users {
    private Users() {}

    static void users(Client client) throws Exception {
        Auth auth = client.getAuthClient();
        var worker = Program.bytes("worker");
        var ann = Program.bytes("ann");
        Program.got(auth.roleAdd(worker));
        Program.got(auth.roleGrantPermission(worker, Program.bytes("w/"), Program.bytes("w0"), Permission.Type.READWRITE));
        Program.got(auth.userAdd(ann, Program.bytes("first")));
        Program.got(auth.userGrantRole(ann, worker));
        Program.failed("user twice", auth.userAdd(ann, Program.bytes("first")));
        Program.failed("no such role", auth.roleGet(Program.bytes("none")));
        Program.step("users", Program.got(auth.userList()).getUsers() + ", roles " + Program.got(auth.roleList()).getRoles()
            + ", ann has " + Program.got(auth.userGet(ann)).getRoles());
        Permission permission = Program.got(auth.roleGet(worker)).getPermissions().get(0);
        Program.step("role", permission.getPermType() + " " + Program.text(permission.getKey()) + " to "
            + Program.text(permission.getRangeEnd()));
        try (Client other = Check.connect("ann", "first")) {
            Program.got(other.getKVClient().put(Program.bytes("w/1"), Program.bytes("x")));
            Program.failed("beyond", other.getKVClient().put(Program.bytes("r/1"), Program.bytes("x")));
        }
        Program.got(auth.userChangePassword(ann, Program.bytes("second")));
        refused("old password", "ann", "first");
        Program.got(auth.userDelete(ann));
        Program.got(auth.roleDelete(worker));
    }

    static void strangers() throws Exception {
        refused("nobody", "", "");
        refused("wrong password", "root", "wrong");
        try (Client reader = Check.connect(Program.said("READER"), Program.said("READER_PASSWORD"))) {
            Program.step("reader", Check.list(Program.got(reader.getKVClient().get(Program.bytes("r/a")))));
            Program.failed("reader puts", reader.getKVClient().put(Program.bytes("r/a"), Program.bytes("x")));
            Program.failed("reader lists users", reader.getAuthClient().userList());
        }
    }

    private static void refused(String name, String user, String password) throws Exception {
        try (Client client = Check.connect(user, password)) {
            Program.failed(name, client.getKVClient().get(Program.bytes("r/a")));
        }
    }

    static void tokens(Client client) throws Exception {
        Program.ask("expire");
        Program.got(client.getKVClient().put(Program.bytes("r/a"), Program.bytes("renewed")));
        Program.step("token renewed", Check.list(Program.got(client.getKVClient().get(Program.bytes("r/a")))));
    }
}
