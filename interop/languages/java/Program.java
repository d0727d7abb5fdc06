import io.etcd.jetcd.ByteSequence;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** How a program speaks to cmd/languages, which has started it. */
final class Program {
    /** How long anything may take, in seconds. */
    static final long PATIENCE = 60;

    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Program() {}

    /** Tells the result of a step. */
    static void step(String name, Object result) {
        System.out.println(name + ": " + String.valueOf(result).replace("\n", "\\n"));
        System.out.flush();
    }

    /** Has something done, and returns the answer. */
    static String ask(String request) throws IOException {
        System.out.println("@" + request);
        System.out.flush();
        return INPUT.readLine();
    }

    /** What the environment says, or nothing. */
    static String said(String name) {
        return System.getenv().getOrDefault(name, "");
    }

    static ByteSequence bytes(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    static String text(ByteSequence bytes) {
        return bytes.toString(StandardCharsets.UTF_8);
    }

    static <T> T got(CompletableFuture<T> answer) throws Exception {
        return answer.get(PATIENCE, TimeUnit.SECONDS);
    }

    /** What an attempt fails with: the innermost cause, which has the server's code and text. */
    static void failed(String name, CompletableFuture<?> attempt) throws Exception {
        try {
            attempt.get(PATIENCE, TimeUnit.SECONDS);
            step(name, "no error");
        } catch (ExecutionException error) {
            step(name, reason(error));
        }
    }

    static String reason(Throwable error) {
        while (error.getCause() != null) {
            error = error.getCause();
        }
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }
}
