import io.etcd.jetcd.ByteSequence;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** The protocol with cmd/languages, which starts this program. */
final class Program {
    /** Bounds every operation, in seconds. */
    static final long PATIENCE = 60;

    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Program() {}

    /** Prints the result of a step. */
    static void step(String name, Object result) {
        System.out.println(name + ": " + String.valueOf(result).replace("\n", "\\n"));
        System.out.flush();
    }

    /** Sends a request to cmd/languages and returns the response. */
    static String ask(String request) throws IOException {
        System.out.println("@" + request);
        System.out.flush();
        return INPUT.readLine();
    }

    /** Returns an environment variable, empty if unset. */
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

    /** Prints the error of an attempt: the innermost cause, with the server's code and text. */
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
