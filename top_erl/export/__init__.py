"""Takes a trained policy out of this package: one ONNX graph from observation and measured state to the reference."""
