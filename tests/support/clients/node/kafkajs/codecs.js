// The codecs that KafkaJS takes from others.
"use strict";
const { CompressionTypes, CompressionCodecs } = require("kafkajs");

module.exports.compressors = async () => {
  const snappy = require("kafkajs-snappy");
  const zstd = require("@bokuweb/zstd-wasm");
  await zstd.init();
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async ({ buffer }) => Buffer.from(zstd.compress(buffer)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
  return {
    none: CompressionTypes.None,
    gzip: CompressionTypes.GZIP,
    snappy: CompressionTypes.Snappy,
    zstd: CompressionTypes.ZSTD,
  };
};
