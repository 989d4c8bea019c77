import sys,subprocess,re,collections
out=subprocess.run(['cuobjdump','-sass',sys.argv[1]],capture_output=True,text=True).stdout
funcs=out.split('Function : ')[1:]
for f in funcs:
    ins=[]
    for line in f.split('\n'):
        m=re.match(r'\s+/\*([0-9a-f]{4,})\*/\s+(.*?);',line)
        if m: ins.append((int(m[1],16),m[2]))
    addr={a:i for i,(a,_) in enumerate(ins)}
    print(f[:60].split('\n')[0],len(ins),'instructions')
    loops=[]
    for i,(a,t) in enumerate(ins):
        m=re.search(r'BRA(?:\.\w+)* .*?(0x[0-9a-f]+)',t)
        if m and int(m[1],16)<=a and int(m[1],16) in addr:
            loops.append((addr[int(m[1],16)],i))
    for b,e in loops:
        c=collections.Counter(t.split()[1 if t.startswith('@') else 0].split('.')[0] for _,t in ins[b:e+1])
        if c['HGMMA'] : print('  loop',b,e,e-b+1,dict(c.most_common(40)))
