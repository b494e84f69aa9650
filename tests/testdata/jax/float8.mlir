module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32>) -> (tensor<16xf8E4M3FN> {jax.result_info = "result[0]"}, tensor<16xf8E5M2> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<16xf32>) -> tensor<16xf8E4M3FN>
    %1 = stablehlo.convert %arg0 : (tensor<16xf32>) -> tensor<16xf8E5M2>
    return %0, %1 : tensor<16xf8E4M3FN>, tensor<16xf8E5M2>
  }
}
