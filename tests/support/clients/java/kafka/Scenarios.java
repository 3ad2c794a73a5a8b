import java.util.Arrays;

/** Kafka's Java clients: BOOTSTRAP SCENARIO GROUP TOPIC [ARGS], see tests/clients/scenarios.py. */
public final class Scenarios {
    private Scenarios() {}

    public static void main(String[] given) throws Exception {
        String group = given[2], topic = given[3];
        String[] more = Arrays.copyOfRange(given, 4, given.length);
        Settings settings = new Settings(given[0]);
        switch (given[1]) {
            case "join" -> Groups.join(settings, group, topic);
            case "rebalance" -> Groups.rebalance(settings, group, topic);
            case "cooperative" -> Groups.cooperative(settings, group, topic);
            case "static" -> Groups.restart(settings, group, topic);
            case "stay" -> Groups.stay(settings, group, topic);
            case "commit" -> Groups.commit(settings, group, topic);
            case "transactions" -> Records.transactions(settings, group, topic);
            case "records" -> Records.codecs(settings, topic, more);
            case "fence" -> Fencing.fence(settings, topic);
            case "time-out" -> Fencing.timeOut(settings, topic);
            case "regex" -> ConsumerGroups.regex(settings, group, topic);
            case "migrate" -> ConsumerGroups.migrate(settings, group, topic);
            case "fenced" -> ConsumerGroups.fenced(settings, group, topic);
            case "late_revocation" -> ConsumerGroups.lateRevocation(settings, group, topic);
            case "admin" -> Administration.calls(settings, group, topic);
            case "share_group" -> Refused.share(settings, group, topic);
            case "streams_group" -> Refused.streams(settings, group, topic);
            case "streams" -> WordCount.count(settings, group, topic, more);
            default -> throw new IllegalArgumentException("no scenario " + given[1]);
        }
        System.exit(0);
    }
}
