// The theme searches in a worker, which browsers refuse to start from file://. A hidden frame takes
// its place there. mkdocs' plugin `offline` would load such a script from the network; it leaves
// that out because of this file's name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc =
        "<script>postMessage = (data) => parent.postMessage(data, '*')</script>" +
        `<script src="${url}"></script>`;
      this.ready = new Promise((done) => {
        frame.addEventListener("load", () => done(frame.contentWindow));
      });
      addEventListener("message", ({ source, data }) => {
        if (source === frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data }));
        }
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      const inside = await this.ready;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
  };
}
