package clienttest

import (
	"time"

	"xla_go/gosrc/client"
)

// Case is one case of the suite.
type Case struct {
	Name string
	// Several: it needs more than one local device.
	Several bool
	// Faults: it needs the test plugin, which fails and delays on demand.
	Faults bool
	run    func(t *T)
}

// Result is how a case ended.
type Result struct {
	Case    string  `json:"case"`
	Outcome Outcome `json:"outcome"`
	// Text is what was found, why the case does not apply, or the plugin's word for what it lacks.
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	// Methods are those of the contract that were called.
	Methods map[string]bool `json:"-"`
}

// Cases gives all cases.
func Cases() []Case {
	return []Case{
		one("Topology", topology),
		one("MemoryInfo", memoryInfo),
		one("Placeholder", placeholder),
		one("ForeignData", foreignData),
		one("TransferRoundTrip", transferRoundTrip),
		one("TransferEveryType", transferEveryType),
		one("ExecuteEveryType", executeEveryType),
		one("AddEveryType", addEveryType),
		one("EmptyAndScalar", emptyAndScalar),
		one("NoArgumentsOrResults", noArguments),
		one("TransferStrided", transferStrided),
		one("TransferBadInput", transferBadInput),
		one("SourceMayChangeAfterRelease", sourceMayChange),
		one("SourceMayBeFreedAfterRelease", sourceMayBeFreed),
		one("MemoryOfUploadsComesBack", memoryComesBack),
		one("DonationOfALargeUpload", donationOfALargeUpload),
		one("ReadInto", readInto),
		one("Execute", execute),
		one("ExecuteBadInput", executeBadInput),
		one("ExecuteManyArguments", executeMany),
		one("AssignSharesMemory", assign),
		one("AssignBadInput", assignBadInput),
		one("Donation", donation),
		one("NonDonatable", nonDonatable),
		one("DonationOfWhatIsAlsoRead", sameArgumentTwice),
		one("LentValueIsNotConsumed", lentValue),
		one("OnReadyCallback", onReady),
		one("EndOfARun", endOfRun),
		{Name: "WaitDeviceOps", run: waitDeviceOps},
		one("ExternalReference", externalReference),
		one("ExternalReferenceKeepsMemory", referenceKeepsMemory),
		one("LentToManyThreads", lentToMany),
		one("ViewOfExternalMemory", view),
		one("Serialization", serialization),
		one("CompileErrors", compileErrors),
		one("MLIR", mlir),
		one("OptimizedHLO", optimized),
		one("EnvironmentHash", environmentHash),
		one("UnknownCompileOption", unknownCompileOption),
		one("NaNIsKept", nanIsKept),
		one("Coordinator", coordinates),
		one("OutOfMemory", outOfMemory),
		one("OutOfMemoryNumbers", outOfMemoryNumbers),
		one("Concurrent", concurrent),
		one("DataMemory", dataMemory),
		one("ClosedWhileUsed", closedWhileUsed),
		one("ClosedData", closedData),
		{Name: "ClientClosedWhileUsed", run: clientClosedWhileUsed},
		one("Closed", closed),

		several("Shards", shards),
		several("TransferShards", transferShards),
		several("ShardedPlaceholder", shardedPlaceholder),
		several("AssignSharded", assignSharded),
		several("Partitioned", partitioned),
		four("PartitionedMLIR", partitionedMLIR),
		four("PartitionedMLIRBytecode", partitionedBytes),
		four("PartitionedByShardy", partitionedByShardy),
		several("Replicas", replicas),
		several("ReplicasDonate", replicasDonate),
		several("OneOfSeveralDevices", oneOfSeveral),
		{Name: "WaitDeviceOpsOfSeveral", Several: true, run: waitSeveral},
		several("ShardedBadInput", shardedBadInput),
		several("Reshard", reshard),
		four("ShardingsThatReadBack", shardingsThatReadBack),
		four("ReshardEveryPair", reshardEveryPair),
		four("ReshardSharesWhatStays", reshardSharing),
		four("ReshardSeveralAtOnce", reshardSeveral),
		four("ReshardBadInput", reshardBadInput),
		four("ReadOfTilesNeedsNoCompile", assembledWithoutACompile),

		faulty("ExecutionDoesNotWait", executionDoesNotWait),
		faulty("ReadWaits", readWaits),
		faulty("FailureOfAResultAtOnce", failureAtOnce),
		faulty("FailureOfAResultLater", failureLater),
		faulty("FailureOfACall", failureOfACall),
		faulty("FailureOfAnUpload", failureOfAnUpload),
		faulty("FailureOfShards", failureOfShards),
		faulty("WaitDeviceOpsWaitsForNamedOnly", waitOnlyForNamed),
		faulty("WaitDeviceOpsWaitsForUploads", waitForUploads),
		faulty("ReleaseOfASourceThatIsReadLater", releaseOfSource),
		faulty("ReleaseOfASourceThatCannotBeRead", releaseOfFailedSource),
		faulty("PluginWithoutOptionalFunctions", withoutOptional),
		faulty("MemoryLimit", memoryLimit),
		faulty("ExhaustedAtOnce", exhaustedAtOnce),
		faulty("ExhaustedLater", exhaustedLater),
	}
}

// one is a case that gets a client of which it uses the first device.
func one(name string, run func(t *T, c client.Client)) Case {
	return Case{Name: name, run: func(t *T) { run(t, t.Client(nil)) }}
}

// several is a case that gets a client of at least two devices, all of them local.
func several(name string, run func(t *T, c client.Client)) Case {
	return Case{Name: name, Several: true, run: func(t *T) { run(t, t.severalDevices(nil)) }}
}

// severalDevices makes a client of at least two devices, all of them local, or skips the case.
func (t *T) severalDevices(options map[string]any) client.Client {
	t.Helper()
	c := t.clientOf(t.subject.Several, options)
	if n := c.GetNumLocalDevices(); n < 2 || n != c.GetNumDevices() {
		t.Skip("needs several devices, all of this process; there are", c.GetNumDevices(), "of which this process has", n)
	}
	return c
}

// four is a case of several devices whose tables are written for four.
func four(name string, run func(t *T, c client.Client)) Case {
	return several(name, func(t *T, c client.Client) {
		if n := c.GetNumLocalDevices(); n != 4 {
			t.Skip("needs four devices; there are", n)
		}
		run(t, c)
	})
}

// faulty is a case that makes its clients with options of the test plugin.
func faulty(name string, run func(t *T)) Case {
	return Case{Name: name, Faults: true, run: func(t *T) {
		if !t.subject.Faults {
			t.Skip("needs the test plugin, which fails and delays on demand")
		}
		run(t)
	}}
}

// RunOn runs the case with clients of its own. They are closed after it; that must succeed and nothing of them
// may be left, so a case that leaks fails. BLOCKING.
func (c Case) RunOn(s *Subject) Result {
	begin := time.Now()
	t := &T{subject: s}
	var before map[string]int64
	if s.Alive != nil {
		before = s.Alive()
	}
	t.perform(func() { c.run(t) })
	t.finish()
	t.perform(t.close)
	if t.outcome == "" {
		if more := s.settled(before); more != "" {
			t.Errorf("still alive after the client was closed: %s", more)
		}
	}
	result := Result{Case: c.Name, Outcome: t.outcome, Seconds: time.Since(begin).Seconds(), Methods: map[string]bool{}}
	if result.Outcome == "" {
		result.Outcome = Pass
	}
	result.Text = join(t.text)
	for _, c := range t.clients {
		for method := range c.called {
			result.Methods[method] = true
		}
	}
	return result
}
