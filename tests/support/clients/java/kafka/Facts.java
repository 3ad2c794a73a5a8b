import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** What a scenario tells: one line of JSON for each fact. */
final class Facts {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Facts() {}

    /** Tells a fact: name, value, name, value ... */
    static void tell(Object... pairs) throws JsonProcessingException {
        Map<String, Object> fact = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) fact.put((String) pairs[at], pairs[at + 1]);
        System.out.println(JSON.writeValueAsString(fact));
    }

    static void await(BooleanSupplier condition) throws InterruptedException {
        while (!condition.getAsBoolean()) Thread.sleep(5);
    }
}
