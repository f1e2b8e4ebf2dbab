from ridgeline.workload.layer import Layer, Operand, Product, Workload


def _layer(macs: int | None, *operands: Operand, parameters: int = 0) -> Layer:
    return Layer("l", "MatMul", "product", macs, 0, operands, parameters=parameters)


WEIGHT = Operand("w", 0, "weight", 100, 100, 32)
INPUT = Operand("x", 1, "input", 10, 10, 32)
INDEX = Operand("i", 2, "input", 3, 3, 64, movable=False)
UNKNOWN = Operand("u", 3, "output", None, 7, 32)


def test_bytes_are_apart_and_unknown_is_not_0() -> None:
    layer = _layer(1000, WEIGHT, INPUT, UNKNOWN)
    assert (layer.weight_bytes, layer.input_bytes, layer.kv_bytes) == (400, 40, 0)
    assert layer.output_bytes is None
    assert layer.moved_bytes is None
    assert layer.operations == 2000
    assert layer.operations_per_byte is None


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    workload = Workload("w", (_layer(5), _layer(None)), batch=1)
    assert workload.macs is None
    assert workload.operations is None
    assert len(workload.unknown(lambda layer: layer.macs)) == 1


def test_real_numbers_follow_a_precision_and_indices_do_not() -> None:
    workload = Workload("w", (_layer(5, WEIGHT, INPUT, INDEX),), batch=1, inputs=(INPUT,))
    stored = workload.stored_as(weight_bits=4, activation_bits=16)
    assert stored.layers[0].weight_bytes == 50
    assert stored.layers[0].input_bytes == 20 + 24
    assert stored.border_bytes == 20
    assert stored.parameter_bytes == 50
    # Weights that are narrower already stay as they are.
    assert stored.stored_as(16, 16).layers[0].weight_bytes == 50


def test_macs_of_a_product() -> None:
    assert Product(groups=2, m=3, n=5, k=7, steps=11).macs == 2 * 3 * 5 * 7 * 11
