// The codecs that KafkaJS takes from others.
"use strict";
const { CompressionTypes, CompressionCodecs } = require("kafkajs");

module.exports.compressors = async () => {
  const lz4 = require("lz4js");
  const snappy = require("kafkajs-snappy");
  const zstd = require("@bokuweb/zstd-wasm");
  await zstd.init();
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async ({ buffer }) => Buffer.from(lz4.compress(buffer)),
    decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async ({ buffer }) => Buffer.from(zstd.compress(buffer)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
  return {
    none: CompressionTypes.None,
    gzip: CompressionTypes.GZIP,
    snappy: CompressionTypes.Snappy,
    lz4: CompressionTypes.LZ4,
    zstd: CompressionTypes.ZSTD,
  };
};
