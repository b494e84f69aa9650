module @partitioned attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["rows"=4]>
  func.func public @main(%x: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>}, %y: tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %product = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%product init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
    return %product, %sum : tensor<8x2xf32>, tensor<f32>
  }
}
