import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Kafka's command line tools, one after another in one process: BOOTSTRAP, then for each tool ";",
 * its class, what it reads, its arguments. What a tool wrote and its exit status are told.
 */
public final class Tools {
    private static Integer status; // of the first exit: some tools catch what their exit throws
    private static String said;

    private Tools() {}

    public static void main(String[] given) throws Exception {
        PrintStream out = System.out;
        List<String> all = new ArrayList<>(Arrays.asList(given));
        String bootstrap = all.remove(0);
        while (!all.isEmpty()) {
            int next = all.subList(1, all.size()).indexOf(";") + 1;
            List<String> tool = all.subList(1, next == 0 ? all.size() : next);
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            System.setOut(new PrintStream(written, true));
            System.setErr(System.out);
            status = null;
            catchExit(written);
            run(bootstrap, tool);
            if (status == null) end(0, written);
            System.setOut(out);
            Facts.tell("status", status, "said", said.lines().toList());
            all.subList(0, tool.size() + 1).clear();
        }
        System.exit(0);
    }

    /** The class lies in another package since 4.4. */
    private static void catchExit(ByteArrayOutputStream written) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ends =
                Proxy.newProxyInstance(
                        procedure.getClassLoader(),
                        new Class<?>[] {procedure},
                        (self, method, arguments) -> {
                            end((int) arguments[0], written);
                            return null;
                        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ends);
    }

    private static void end(int code, ByteArrayOutputStream written) {
        if (status == null) {
            status = code;
            said = written.toString(StandardCharsets.UTF_8);
        }
    }

    private static void run(String bootstrap, List<String> tool) throws Exception {
        System.setIn(new ByteArrayInputStream(tool.get(1).getBytes(StandardCharsets.UTF_8)));
        List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        arguments.addAll(tool.subList(2, tool.size()));
        Class.forName("org.apache.kafka.tools." + tool.get(0))
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(String[]::new));
    }
}
