import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** One OpenSearch node from the published server jars: HTTP on loopback, data below the directory given. */
public final class OpenSearchNode extends Node {
    private OpenSearchNode(Settings settings, Path home) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "tidemark"),
            List.of(Netty4Plugin.class),
            false
        );
    }

    /** Arguments: the data directory, the HTTP port, then any number of name=value settings. */
    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]).toAbsolutePath();
        Settings.Builder settings = Settings.builder()
            .put("cluster.name", "tidemark")
            .put("node.name", "tidemark")
            .put("path.home", home.toString())
            .put("network.host", "127.0.0.1")
            .put("http.port", args[1])
            .put("transport.port", "0")
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("discovery.type", "single-node")
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int i = 2; i < args.length; i++) {
            int eq = args[i].indexOf('=');
            settings.put(args[i].substring(0, eq), args[i].substring(eq + 1));
        }
        Node node = new OpenSearchNode(settings.build(), home);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
